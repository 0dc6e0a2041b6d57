//! Signatures and encryption of packets, as collectd makes them.
//!
//! ```text
//! 0x0200  u16 length | HMAC-SHA-256, 32 bytes | user          over the user and all that follows the part
//! 0x0210  u16 length | u16 length of user | user | IV, 16 bytes | AES-256-OFB of (SHA-1, 20 bytes | parts)
//! ```
//!
//! The length of a signature ends with the user; that of an encrypted part includes what is encrypted. The key of the
//! cipher is the SHA-256 of the secret. Neither form has a number or a time that would tell a packet sent again.

use aes::Aes256;
use aes::cipher::{KeyIvInit, StreamCipher};
use hmac::digest::CtOutput;
use hmac::{Hmac, KeyInit, Mac};
use ofb::Ofb;
use sha1::Sha1;
use sha2::{Digest, Sha256};

use super::users::Users;
use crate::monitor::Dropped;

const MAC: usize = 32;
const IV: usize = 16;
const CHECKSUM: usize = 20;

/// What is in a signed packet after its first part. `body` is that part without type and length.
pub fn verify<'a>(body: &[u8], rest: &'a [u8], users: &Users) -> Result<&'a [u8], Dropped> {
    let (mac, user) = body.split_at_checked(MAC).ok_or(Dropped::Malformed)?;
    if user.is_empty() {
        return Err(Dropped::Malformed);
    }
    let secret = users.secret(user).ok_or(Dropped::UnknownUser)?;
    let mut expected = Hmac::<Sha256>::new_from_slice(secret).map_err(|_| Dropped::UnknownUser)?;
    expected.update(user);
    expected.update(rest);
    // Compares in a time that does not tell how much was right.
    expected.verify_slice(mac).map_err(|_| Dropped::BadSeal)?;
    Ok(rest)
}

/// What is in an encrypted part. `body` is the part without type and length.
pub fn open(body: &[u8], users: &Users) -> Result<Vec<u8>, Dropped> {
    let (length, body) = body.split_first_chunk::<2>().ok_or(Dropped::Malformed)?;
    let (user, body) = body.split_at_checked(u16::from_be_bytes(*length).into()).ok_or(Dropped::Malformed)?;
    let (iv, sealed) = body.split_first_chunk::<IV>().ok_or(Dropped::Malformed)?;
    if user.is_empty() || sealed.len() <= CHECKSUM {
        return Err(Dropped::Malformed);
    }
    let secret = users.secret(user).ok_or(Dropped::UnknownUser)?;
    let mut opened = sealed.to_vec();
    Ofb::<Aes256>::new(&Sha256::digest(secret), &(*iv).into()).apply_keystream(&mut opened);
    let parts = opened.split_off(CHECKSUM);
    let said = <[u8; CHECKSUM]>::try_from(&opened[..]).map_err(|_| Dropped::Malformed)?;
    let said = CtOutput::<Sha1>::new(said.into());
    if said == CtOutput::new(Sha1::digest(&parts)) { Ok(parts) } else { Err(Dropped::BadSeal) }
}
