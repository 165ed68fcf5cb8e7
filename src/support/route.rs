//! This machine's own addresses.

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

/// Whether `ip` is an address of this machine: sockets are bound to no other.
pub fn is_own_address(ip: IpAddr) -> bool {
    UdpSocket::bind((ip, 0)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_an_own_address_and_is_reached_by_itself() {
        assert_eq!(route_to((Ipv4Addr::LOCALHOST, 9)), Some(Ipv4Addr::LOCALHOST.into()));
        assert!(is_own_address(Ipv4Addr::LOCALHOST.into()));
        // Reserved for documentation (RFC 5737), so it is nobody's.
        assert!(!is_own_address(Ipv4Addr::new(192, 0, 2, 1).into()));
    }
}
