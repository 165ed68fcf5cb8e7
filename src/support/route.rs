//! Which of this machine's addresses leads where.

use std::net::{IpAddr, Ipv4Addr, UdpSocket};

/// The address that this machine would use to speak to `target`; `None` without
/// a way there. Connecting a UDP socket only asks the routing table; nothing is
/// sent.
pub fn route_to(target: (Ipv4Addr, u16)) -> Option<IpAddr> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    socket.connect(target).ok()?;
    let ip = socket.local_addr().ok()?.ip();
    (!ip.is_unspecified()).then_some(ip)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_reached_by_loopback() {
        assert_eq!(route_to((Ipv4Addr::LOCALHOST, 9)), Some(Ipv4Addr::LOCALHOST.into()));
    }
}
