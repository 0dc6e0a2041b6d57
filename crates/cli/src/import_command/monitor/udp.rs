//! Packets, as they come.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::Duration;

use anyhow::{Context, Result};
use import::monitor::{Dropped, Take};

use super::gate::Gate;
use super::{Shared, lock};
use crate::import_command::stop::Stop;

/// No packet is longer.
const LONGEST: usize = 65_536;
/// How often is looked whether it is to stop.
const LOOK: Duration = Duration::from_millis(200);

/// A socket that is bound; with the address of a group, also as a member of it.
pub fn bind(address: SocketAddr) -> Result<UdpSocket> {
    let what = || format!("cannot listen at {address}");
    let local = match address.ip() {
        IpAddr::V4(group) if group.is_multicast() => SocketAddr::from(([0, 0, 0, 0], address.port())),
        IpAddr::V6(group) if group.is_multicast() => SocketAddr::from(([0u16; 8], address.port())),
        _ => address,
    };
    let socket = UdpSocket::bind(local).with_context(what)?;
    match address.ip() {
        IpAddr::V4(group) if group.is_multicast() => {
            socket.join_multicast_v4(&group, &[0, 0, 0, 0].into()).with_context(what)?;
        }
        IpAddr::V6(group) if group.is_multicast() => {
            socket.join_multicast_v6(&group, 0).with_context(what)?
        }
        _ => {}
    }
    socket.set_read_timeout(Some(LOOK))?;
    Ok(socket)
}

/// Gives each packet of those who may send, until it is to stop; others are counted.
pub fn receive(
    socket: &UdpSocket,
    gate: &Gate,
    feed: &Shared,
    stop: &Stop,
    mut take: impl FnMut(&[u8], SocketAddr),
) -> Result<()> {
    let mut buffer = vec![0; LONGEST];
    while !stop.is_set() {
        match socket.recv_from(&mut buffer) {
            Ok((_, sender)) if !gate.admits(sender.ip()) => lock(feed).dropped(Dropped::NotAllowed),
            Ok((length, sender)) => take(&buffer[..length], sender),
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
                ) => {}
            Err(error) => return Err(error).context("cannot receive packets"),
        }
    }
    Ok(())
}
