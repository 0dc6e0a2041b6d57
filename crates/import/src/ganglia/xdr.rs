//! XDR as Ganglia uses it: everything in fours of bytes, big-endian, strings with their length before them.

use crate::monitor::Dropped;

/// What is left to read.
pub struct Xdr<'a>(pub &'a [u8]);

impl<'a> Xdr<'a> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], Dropped> {
        let (taken, rest) = self.0.split_first_chunk::<N>().ok_or(Dropped::Truncated)?;
        self.0 = rest;
        Ok(*taken)
    }

    pub fn u32(&mut self) -> Result<u32, Dropped> {
        self.take().map(u32::from_be_bytes)
    }

    pub fn i32(&mut self) -> Result<i32, Dropped> {
        self.take().map(i32::from_be_bytes)
    }

    pub fn f32(&mut self) -> Result<f32, Dropped> {
        self.take().map(f32::from_be_bytes)
    }

    pub fn f64(&mut self) -> Result<f64, Dropped> {
        self.take().map(f64::from_be_bytes)
    }

    pub fn string(&mut self) -> Result<&'a [u8], Dropped> {
        let length = usize::try_from(self.u32()?).map_err(|_| Dropped::TooLong)?;
        let (string, rest) = self.0.split_at_checked(length).ok_or(Dropped::Truncated)?;
        self.0 = rest.get(length.wrapping_neg() % 4..).ok_or(Dropped::Truncated)?;
        Ok(string)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_filled_up_to_fours() {
        let mut xdr = Xdr(b"\0\0\0\x03abc\0\0\0\0\x04wxyz\0\0\0\0\0\0\0\x05");
        assert_eq!(
            (xdr.string(), xdr.string(), xdr.string()),
            (Ok(&b"abc"[..]), Ok(&b"wxyz"[..]), Ok(&b""[..]))
        );
        assert_eq!((xdr.u32(), xdr.u32()), (Ok(5), Err(Dropped::Truncated)));
        for cut in [&b"\0\0\0\x03ab"[..], b"\0\0\0\x03abc", b"\xff\xff\xff\xffabc", b"\0\0"] {
            assert_eq!(Xdr(cut).string(), Err(Dropped::Truncated), "{cut:?}");
        }
    }
}
