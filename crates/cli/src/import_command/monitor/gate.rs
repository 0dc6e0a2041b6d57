//! Who may send values: from which addresses, and with which token.

use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::str::FromStr;

use anyhow::{Context, Result, bail};

/// An address, or all whose first bits are the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prefix {
    address: IpAddr,
    bits: u8,
}

impl Prefix {
    fn contains(&self, address: IpAddr) -> bool {
        let differ = match (self.address, address) {
            (IpAddr::V4(own), IpAddr::V4(other)) => (own.to_bits() ^ other.to_bits()).leading_zeros(),
            (IpAddr::V6(own), IpAddr::V6(other)) => (own.to_bits() ^ other.to_bits()).leading_zeros(),
            _ => return false,
        };
        differ >= u32::from(self.bits)
    }
}

impl FromStr for Prefix {
    type Err = String;

    fn from_str(text: &str) -> Result<Prefix, String> {
        let wrong = || format!("`{text}` is neither an address nor a prefix such as 10.1.0.0/16");
        let (address, bits) =
            text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Ok(most), str::parse).map_err(|_| wrong())?;
        if bits > most { Err(wrong()) } else { Ok(Prefix { address, bits }) }
    }
}

/// Where to listen: an address and a port, or a port of this machine's own programs alone.
pub fn listen_address(text: &str) -> Result<SocketAddr, String> {
    let on_loopback = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
    let wrong = |_| format!("`{text}` is neither a port nor ADDRESS:PORT");
    text.parse().map(on_loopback).or_else(|_| text.parse().map_err(wrong))
}

/// What a sender must show.
#[derive(Debug, Clone, Default)]
pub struct Gate {
    allowed: Vec<Prefix>,
    token: Option<String>,
}

impl Gate {
    pub fn new(allowed: &[Prefix], token_file: Option<&Path>) -> Result<Gate> {
        let token = token_file.map(read_token).transpose()?;
        Ok(Gate { allowed: allowed.to_vec(), token })
    }

    /// Refuses to listen where anybody could make up values; `is_sealed` where packets must be signed.
    pub fn guard(&self, address: SocketAddr, is_sealed: bool) -> Result<()> {
        if address.ip().is_loopback() || is_sealed || !self.allowed.is_empty() || self.token.is_some() {
            return Ok(());
        }
        bail!(
            "whoever reaches {address} could make up values: name the senders with --allow ADDRESS/BITS, demand a token or \
             signatures, or give only the port to listen on loopback (--allow 0.0.0.0/0 --allow ::/0 admits everybody)"
        )
    }

    /// Whether this address may send; all may where none is named.
    pub fn admits(&self, sender: IpAddr) -> bool {
        // A socket of both families shows IPv4 senders as IPv6.
        let sender = sender.to_canonical();
        self.allowed.is_empty() || self.allowed.iter().any(|prefix| prefix.contains(sender))
    }

    /// Whether the header `Authorization: Token …` or `Bearer …` has the token, where one is demanded.
    pub fn accepts(&self, authorization: Option<&[u8]>) -> bool {
        let Some(token) = &self.token else { return true };
        let given = authorization.and_then(|header| {
            let (scheme, given) = header.split_at_checked(header.iter().position(|byte| *byte == b' ')?)?;
            let is_known = scheme.eq_ignore_ascii_case(b"Token") || scheme.eq_ignore_ascii_case(b"Bearer");
            is_known.then(|| given.trim_ascii())
        });
        given.is_some_and(|given| is_same(given, token.as_bytes()))
    }
}

/// Takes as long wherever they differ.
fn is_same(given: &[u8], token: &[u8]) -> bool {
    given.len() == token.len() && given.iter().zip(token).fold(0, |differ, (a, b)| differ | (a ^ b)) == 0
}

fn read_token(path: &Path) -> Result<String> {
    let text = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let token = String::from_utf8_lossy(&text).trim().to_owned();
    if token.is_empty() {
        bail!("{} holds no token", path.display());
    }
    Ok(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_contain_what_begins_like_them() {
        let admits = |prefix: &str, address: &str| {
            let gate = Gate { allowed: vec![prefix.parse().unwrap()], token: None };
            gate.admits(address.parse().unwrap())
        };
        for (prefix, inside, outside) in [
            ("10.1.0.0/16", "10.1.255.255", "10.2.0.0"),
            ("10.1.2.3", "10.1.2.3", "10.1.2.2"),
            ("0.0.0.0/0", "255.1.2.3", "::1"),
            ("fd00::/8", "fdff::1", "fe00::1"),
            ("::1/128", "::1", "::2"),
            ("192.0.2.0/31", "::ffff:192.0.2.1", "::ffff:192.0.2.2"),
        ] {
            assert!(admits(prefix, inside), "{prefix} {inside}");
            assert!(!admits(prefix, outside), "{prefix} {outside}");
        }
        assert!(Gate::default().admits([192, 0, 2, 1].into()), "without a list");
        for wrong in ["", "10.1", "10.1.0.0/33", "10.1.0.0/-1", "::/129", "host", "10.1.0.0/"] {
            assert!(wrong.parse::<Prefix>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_port_alone_is_on_loopback() {
        assert_eq!(listen_address("8086"), Ok(SocketAddr::from(([127, 0, 0, 1], 8086))));
        assert_eq!(listen_address("0.0.0.0:8086"), Ok(SocketAddr::from(([0, 0, 0, 0], 8086))));
        assert!(listen_address("8086x").is_err() && listen_address("99999").is_err());
    }

    #[test]
    fn everybody_is_heard_only_where_that_was_said() {
        let (everywhere, own) = (([0, 0, 0, 0], 1).into(), ([127, 0, 0, 1], 1).into());
        let open = Gate::default();
        assert!(open.guard(own, false).is_ok() && open.guard(everywhere, true).is_ok());
        assert!(open.guard(everywhere, false).is_err());
        assert!(open.guard(([239, 2, 11, 71], 8649).into(), false).is_err(), "a group");
        let listed = Gate { allowed: vec!["0.0.0.0/0".parse().unwrap()], token: None };
        assert!(listed.guard(everywhere, false).is_ok());
    }

    #[test]
    fn tokens_are_compared_whole() {
        let gate = Gate { allowed: Vec::new(), token: Some("secret".into()) };
        for good in ["Token secret", "Bearer secret", "bearer  secret "] {
            assert!(gate.accepts(Some(good.as_bytes())), "{good}");
        }
        for bad in ["", "secret", "Token", "Token ", "Token secre", "Token secret2", "Basic secret"] {
            assert!(!gate.accepts(Some(bad.as_bytes())), "{bad}");
        }
        assert!(!gate.accepts(None) && Gate::default().accepts(None));
    }
}
