//! Which addresses are on the public Internet.
//!
//! Owns: that table. Promises: what is not known to be public is not public;
//! an address inside another one counts as what it leads to. Must not: resolve
//! anything.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Networks that are not public, as first address and length of the prefix
/// (IANA's registry of special addresses).
const PRIVATE_V4: [(Ipv4Addr, u32); 17] = [
    (Ipv4Addr::UNSPECIFIED, 8),
    (Ipv4Addr::new(10, 0, 0, 0), 8),
    (Ipv4Addr::new(100, 64, 0, 0), 10),
    (Ipv4Addr::new(127, 0, 0, 0), 8),
    // Azure's own service for its machines.
    (Ipv4Addr::new(168, 63, 129, 16), 32),
    (Ipv4Addr::new(169, 254, 0, 0), 16),
    (Ipv4Addr::new(172, 16, 0, 0), 12),
    (Ipv4Addr::new(192, 0, 0, 0), 24),
    (Ipv4Addr::new(192, 0, 2, 0), 24),
    (Ipv4Addr::new(192, 31, 196, 0), 24),
    (Ipv4Addr::new(192, 52, 193, 0), 24),
    (Ipv4Addr::new(192, 88, 99, 0), 24),
    (Ipv4Addr::new(192, 168, 0, 0), 16),
    (Ipv4Addr::new(198, 51, 100, 0), 24),
    (Ipv4Addr::new(203, 0, 113, 0), 24),
    (Ipv4Addr::new(224, 0, 0, 0), 4),
    (Ipv4Addr::new(240, 0, 0, 0), 4),
];

/// The part of IPv6 that is handed out; all else is special.
const GLOBAL_V6: (Ipv6Addr, u32) = (Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3);

/// What of that part is special, or leads to an IPv4 address (6to4, Teredo).
const PRIVATE_V6: [(Ipv6Addr, u32); 5] = [
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23),
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32),
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16),
    (Ipv6Addr::new(0x3ffe, 0, 0, 0, 0, 0, 0, 0), 16),
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20),
];

/// How a network without IPv4 writes the IPv4 addresses of others (NAT64).
const NAT64: (Ipv6Addr, u32) = (Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0), 96);
/// 198.18.0.0/15: for measuring networks, and for proxies that make addresses up.
const BENCHMARK: (Ipv4Addr, u32) = (Ipv4Addr::new(198, 18, 0, 0), 15);
/// `fc00::/7`: private networks, and the same proxies.
const UNIQUE_LOCAL: (Ipv6Addr, u32) = (Ipv6Addr::new(0xfc00, 0, 0, 0, 0, 0, 0, 0), 7);
/// Where AWS keeps credentials for its machines, in the range before.
const AWS_METADATA: Ipv6Addr = Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254);

/// Whether everybody can reach it.
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

/// Whether it is in the range for measuring networks.
pub fn is_benchmark(address: IpAddr) -> bool {
    matches!(address, IpAddr::V4(address) if in_v4(address, BENCHMARK))
}

/// Whether it is in the private range of IPv6, and not where secrets are.
pub fn is_unique_local(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address)
        if in_v6(address, UNIQUE_LOCAL) && address != AWS_METADATA)
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    !in_v4(address, BENCHMARK) && !PRIVATE_V4.iter().any(|range| in_v4(address, *range))
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    if in_v6(address, NAT64) {
        let [.., a, b, c, d] = address.octets();
        return is_public_v4(Ipv4Addr::new(a, b, c, d));
    }
    in_v6(address, GLOBAL_V6) && !PRIVATE_V6.iter().any(|range| in_v6(address, *range))
}

fn in_v4(address: Ipv4Addr, (network, prefix): (Ipv4Addr, u32)) -> bool {
    let mask = u32::MAX << (u32::BITS - prefix);
    address.to_bits() & mask == network.to_bits() & mask
}

fn in_v6(address: Ipv6Addr, (network, prefix): (Ipv6Addr, u32)) -> bool {
    let mask = u128::MAX << (u128::BITS - prefix);
    address.to_bits() & mask == network.to_bits() & mask
}
