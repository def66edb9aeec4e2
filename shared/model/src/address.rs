//! Which addresses of the network this gateway goes to on somebody's word.
//!
//! Who may name an address must not be able to reach through the gateway what the gateway can reach.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    str::FromStr,
};

/// Is it an address that anyone on the internet can reach? (Registries of special-purpose addresses:
/// RFC 6890 and its successors.)
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    !(address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_broadcast()
        || address.is_documentation()
        || address.is_multicast()
        || a == 0
        || a >= 240
        || (a == 100 && (64..128).contains(&b))
        || (a == 192 && b == 0 && c == 0)
        || (a == 198 && (18..20).contains(&b)))
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let [first, second, .., high, low] = address.segments();
    let embedded = || {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        is_public_v4(Ipv4Addr::new(a, b, c, d))
    };
    if let Some(mapped) = address.to_ipv4_mapped() {
        return is_public_v4(mapped);
    }
    match first {
        // Translated to IPv4 on the way.
        0x0064 if second == 0xff9b => embedded(),
        // 6to4, Teredo, documentation, and what is not unicast to everyone.
        0x2002 | 0x3fff => false,
        0x2001 => second >= 0x0200 && second != 0x0db8,
        _ => (0x2000..0x4000).contains(&first),
    }
}

/// Addresses that begin alike: `10.0.0.0/8`, or a single one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    bits: u32,
}

/// It is no network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("is no address or network; use forms such as 10.0.0.0/8, 127.0.0.1 or fd00::/8")]
pub struct NoNetwork;

impl Network {
    /// Is the address one of it? One that is IPv4 in IPv6's clothes is what it is inside.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(of), IpAddr::V4(other)) => {
                begin_alike(u128::from(of.to_bits()), u128::from(other.to_bits()), 32 - self.bits)
            }
            (IpAddr::V6(of), IpAddr::V6(other)) => {
                begin_alike(of.to_bits(), other.to_bits(), 128 - self.bits)
            }
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
        }
    }
}

/// Do they differ in the last bits alone?
fn begin_alike(a: u128, b: u128, last: u32) -> bool {
    (a ^ b).checked_shr(last).unwrap_or(0) == 0
}

impl FromStr for Network {
    type Err = NoNetwork;

    fn from_str(text: &str) -> Result<Self, NoNetwork> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| NoNetwork)?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = match bits {
            Some(bits) => bits.parse().ok().filter(|bits| *bits <= most).ok_or(NoNetwork)?,
            None => most,
        };
        Ok(Self { address, bits })
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c1_only_public_addresses_are_gone_to() {
        for private in [
            "127.0.0.1",
            "10.1.2.3",
            "172.16.0.1",
            "192.168.1.1",
            "169.254.169.254",
            "0.0.0.0",
            "100.64.0.1",
            "192.0.0.8",
            "198.18.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "::1",
            "::",
            "fe80::1",
            "fc00::1",
            "fd12::1",
            "ff02::1",
            "::ffff:10.0.0.1",
            "::ffff:127.0.0.1",
            "64:ff9b::a00:1",
            "2002:a00:1::1",
            "2001:db8::1",
            "2001::1",
        ] {
            assert!(!is_public(private.parse().unwrap()), "{private}");
        }
        for public in ["1.1.1.1", "93.184.215.14", "2606:4700::1111", "64:ff9b::101:101"] {
            assert!(is_public(public.parse().unwrap()), "{public}");
        }
    }

    #[test]
    fn networks_hold_what_begins_alike() {
        for (network, inside, outside) in [
            ("127.0.0.0/8", "127.9.9.9", "128.0.0.1"),
            ("127.0.0.0/8", "::ffff:127.0.0.1", "::1"),
            ("10.1.2.3", "10.1.2.3", "10.1.2.4"),
            ("10.1.2.3/31", "10.1.2.2", "10.1.2.4"),
            ("0.0.0.0/0", "255.255.255.255", "::"),
            ("::/0", "ffff::1", "1.2.3.4"),
            ("fd00::/8", "fdff::1", "fe00::1"),
            ("::1/128", "::1", "::2"),
        ] {
            let parsed: Network = network.parse().unwrap();
            assert!(parsed.contains(inside.parse().unwrap()), "{network} {inside}");
            assert!(!parsed.contains(outside.parse().unwrap()), "{network} {outside}");
        }
        for bad in
            ["", "/8", "localhost", "127.0.0.1/33", "::/129", "1.2.3/8", "1.2.3.4/-1", "1.2.3.4/"]
        {
            assert_eq!(bad.parse::<Network>(), Err(NoNetwork), "{bad}");
        }
        assert_eq!("fd00::/8".parse::<Network>().unwrap().to_string(), "fd00::/8");
    }
}
