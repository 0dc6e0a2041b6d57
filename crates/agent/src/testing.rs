//! What several tests need.

use record::entry::{EndedBy, Image, ImageKey, Place, Used};

use crate::table::Finished;

/// An image that is finished, and takes nobody's memory.
pub fn finished(image: Image) -> Finished {
    Finished { image, lists: Vec::new(), user: 7, held: None }
}

/// An image of a process that began and ended at `start`.
pub fn image(pid: u32, start: u64) -> Image {
    Image {
        key: ImageKey { pid, process_start: start, exec: 1 },
        start,
        end: Some(start),
        ended_by: EndedBy::Exit,
        exit_code: Some(0),
        signal: None,
        ppid: None,
        uid: Some(7),
        user: None,
        host: "h".into(),
        place: Place::default(),
        exe: None,
        exe_file: None,
        exe_deleted: false,
        argv: None,
        argv_cut: false,
        cwd: None,
        modules: None,
        module_files: None,
        env: None,
        container: None,
        objects: None,
        late_objects: None,
        objects_cut: 0,
        used: Used::default(),
        count: 1,
        source: 2,
        forked_from: None,
        without_guest: None,
        ranks: Vec::new(),
        running_at: None,
        reported: false,
    }
}
