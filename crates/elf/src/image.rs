//! What an ELF file on disk says about itself: its notes, and whether a dynamic loader runs it.

extern crate alloc;

use alloc::vec::Vec;
use object::elf::{FileHeader64, PT_INTERP, PT_NOTE};
use object::read::elf::{FileHeader, ProgramHeader};
use object::{Endianness, read::ReadRef};

use crate::notes::Identity;

/// What we keep of an ELF file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Image {
    /// The linker's build-id.
    pub build_id: Option<Vec<u8>>,
    /// The signature our linker wrapper put there.
    pub signature: Option<Vec<u8>>,
    /// Whether the file names a dynamic loader. An executable without one cannot take the guest.
    pub has_interpreter: bool,
}

/// Reads the headers and notes of a 64-bit ELF file; `None` if it is not one.
pub fn read<'a, R: ReadRef<'a>>(data: R) -> Option<Image> {
    let header = FileHeader64::<Endianness>::parse(data).ok()?;
    let endian = header.endian().ok()?;
    let segments = header.program_headers(endian, data).ok()?;
    let mut identity = Identity::default();
    let mut has_interpreter = false;
    for segment in segments {
        match segment.p_type(endian) {
            PT_INTERP => has_interpreter = true,
            PT_NOTE => {
                if let Ok(bytes) = segment.data(endian, data) {
                    identity.absorb(bytes, segment.p_align(endian));
                }
            }
            _ => {}
        }
    }
    Some(Image {
        build_id: identity.build_id.map(<[u8]>::to_vec),
        signature: identity.signature.map(<[u8]>::to_vec),
        has_interpreter,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_test_program_itself() {
        let bytes = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let image = read(bytes.as_slice()).unwrap();
        assert!(image.has_interpreter);
        assert_eq!(image.build_id.map(|id| id.len()), Some(20));
    }

    #[test]
    fn what_is_not_elf_is_none() {
        assert_eq!(read(&b"#!/bin/sh\n"[..]), None);
        assert_eq!(read(&[][..]), None);
    }
}
