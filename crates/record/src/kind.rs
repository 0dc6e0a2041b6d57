//! The kind of a resource. Nearly all are one of a few, and a million jobs name eight million of them: those few take no memory
//! of their own.

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;

use minicbor::decode::Error;
use minicbor::encode::{self, Write};
use minicbor::{Decode, Decoder, Encode, Encoder};

const FEW: [&str; 12] =
    ["cpu", "mem", "node", "billing", "gres", "energy", "license", "fs", "vmem", "pages", "bb", "ic"];

/// What Slurm says before the `/` of a trackable resource.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Kind(Cow<'static, str>);

impl From<&str> for Kind {
    fn from(text: &str) -> Self {
        let known = FEW.into_iter().find(|known| *known == text);
        Kind(known.map_or_else(|| Cow::Owned(text.to_owned()), Cow::Borrowed))
    }
}

impl Deref for Kind {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl PartialEq<&str> for Kind {
    fn eq(&self, other: &&str) -> bool {
        self.0 == *other
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl<C> Encode<C> for Kind {
    fn encode<W: Write>(&self, e: &mut Encoder<W>, _: &mut C) -> Result<(), encode::Error<W::Error>> {
        e.str(self)?.ok()
    }
}

impl<'b, C> Decode<'b, C> for Kind {
    fn decode(d: &mut Decoder<'b>, _: &mut C) -> Result<Self, Error> {
        Ok(Kind::from(d.str()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_comes_back() {
        for text in FEW.into_iter().chain(["", "tmpdisk"]) {
            let kind = Kind::from(text);
            let bytes = minicbor::to_vec(&kind).unwrap();
            assert_eq!(bytes, minicbor::to_vec(text).unwrap());
            assert_eq!(minicbor::decode::<Kind>(&bytes).unwrap(), kind);
            assert_eq!((&*kind, kind.to_string()), (text, text.to_owned()));
        }
    }
}
