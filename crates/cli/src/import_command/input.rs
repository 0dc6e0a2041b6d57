//! A file to import: plain or compressed with gzip, or standard input.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result, bail};
use flate2::bufread::MultiGzDecoder;
use jiff::tz::TimeZone;

const BUFFER: usize = 1 << 18;
/// The first bytes of what gzip wrote.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// The first bytes of what other programs wrote, of which nothing is read: it would pass for text without a header.
const OTHERS: [(&str, &[u8]); 3] =
    [("zstd", &[0x28, 0xb5, 0x2f, 0xfd]), ("xz", &[0xfd, b'7', b'z', b'X', b'Z', 0]), ("bzip2", b"BZh")];

/// A file, and how much of it has been read.
pub struct Input {
    pub name: String,
    pub content: Box<dyn BufRead + Send>,
    /// Not known of standard input.
    pub size: Option<u64>,
    pub read: Arc<AtomicU64>,
}

impl Input {
    pub fn open(path: &Path) -> Result<Input> {
        let read = Arc::new(AtomicU64::new(0));
        let (name, size, source): (_, _, Box<dyn Read + Send>) = if path == Path::new("-") {
            ("standard input".to_owned(), None, Box::new(io::stdin()))
        } else {
            let name = path.display().to_string();
            let file = File::open(path).with_context(|| format!("cannot read {name}"))?;
            let about = file.metadata().with_context(|| format!("cannot read {name}"))?;
            anyhow::ensure!(!about.is_dir(), "{name} is a directory, not a file");
            (name, about.is_file().then_some(about.len()), Box::new(file))
        };
        let mut raw = BufReader::with_capacity(BUFFER, Counted { source, read: read.clone() });
        let start = raw.fill_buf().with_context(|| format!("cannot read {name}"))?;
        if let Some((program, _)) = OTHERS.iter().find(|(_, mark)| start.starts_with(mark)) {
            bail!(
                "{name}: it is compressed with {program}, which is not read: use {program} -dc FILE and --file -"
            );
        }
        let is_packed = start.starts_with(&GZIP);
        let content: Box<dyn BufRead + Send> = if is_packed {
            Box::new(BufReader::with_capacity(BUFFER, MultiGzDecoder::new(raw)))
        } else {
            Box::new(raw)
        };
        Ok(Input { name, content, size, read })
    }

    /// Whether the content begins like JSON.
    pub fn is_json(&mut self) -> io::Result<bool> {
        let start = self.content.fill_buf()?;
        Ok(start.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{'))
    }
}

/// The zone of times that do not say it.
pub fn zone(name: Option<&str>) -> Result<TimeZone> {
    let unknown =
        |name: &str| format!("there is no time zone {name:?}; write for example Europe/Berlin or UTC");
    name.map_or_else(|| Ok(TimeZone::system()), |name| TimeZone::get(name).with_context(|| unknown(name)))
}

struct Counted {
    source: Box<dyn Read + Send>,
    read: Arc<AtomicU64>,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.source.read(buffer)?;
        self.read.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn packed_or_not_the_content_is_the_same() {
        let dir = tempfile::tempdir().unwrap();
        let (plain, packed) = (dir.path().join("a"), dir.path().join("b"));
        std::fs::write(&plain, "  {}\n").unwrap();
        let mut gz =
            flate2::write::GzEncoder::new(File::create(&packed).unwrap(), flate2::Compression::fast());
        gz.write_all(b"  {}\n").unwrap();
        gz.finish().unwrap();
        for path in [&plain, &packed] {
            let mut input = Input::open(path).unwrap();
            assert!(input.is_json().unwrap());
            let mut text = String::new();
            input.content.read_to_string(&mut text).unwrap();
            assert_eq!(text, "  {}\n");
            assert_eq!(input.size, Some(input.read.load(Ordering::Relaxed)));
        }
        assert!(Input::open(dir.path()).is_err());
        assert!(Input::open(&dir.path().join("none")).is_err());
    }

    #[test]
    fn a_file_in_another_compression_is_named_and_not_taken_for_text() {
        let dir = tempfile::tempdir().unwrap();
        let open = |name: &str, start: &[u8]| {
            let path = dir.path().join(name);
            std::fs::write(&path, [start, b"JobID|State\n"].concat()).unwrap();
            Input::open(&path).err().map(|error| error.to_string())
        };
        for (start, name) in [
            (&[0x28, 0xb5, 0x2f, 0xfd][..], "zstd"),
            (&[0xfd, b'7', b'z', b'X', b'Z', 0], "xz"),
            (b"BZh91AY&SY", "bzip2"),
        ] {
            let error = open(name, start).expect(name);
            let expected = format!(
                "{name}: it is compressed with {name}, which is not read: use {name} -dc FILE and --file -"
            );
            assert!(error.ends_with(&expected), "{error}");
        }
        assert_eq!(open("plain", b""), None);
        assert_eq!(open("short", b"BZ"), None);
    }
}
