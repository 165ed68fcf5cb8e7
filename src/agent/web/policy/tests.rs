use super::*;

/// Addresses that lead to something private, in all the ways there are to
/// write them, and others that are none.
const REFUSED: &[&str] = &[
    // Names of this machine and of what is near it.
    "http://localhost/",
    "http://LOCALHOST/",
    "http://localhost./",
    "http://localhost../",
    "http://localhost:8080/",
    "http://foo.localhost/",
    "http://localhost.localdomain/",
    "http://ip6-localhost/",
    "http://ip6-loopback/",
    "http://ｌｏｃａｌｈｏｓｔ/",
    "http://loc%61lhost/",
    "http://lo\tcalhost/",
    "http://printer.local/",
    "http://printer.local./",
    "http://vault.internal/",
    "http://wiki.intranet/",
    "http://router.lan/",
    "http://nas.home.arpa/",
    "http://metadata/",
    "http://metadata.google.internal/computeMetadata/v1/",
    "http://METADATA.google.internal./",
    // 127.0.0.1 in its spellings.
    "http://127.0.0.1/",
    "http://127.0.0.1./",
    "http://127.0.0.1:22/",
    "https://127.0.0.1/",
    "http://127.1/",
    "http://127.0.1/",
    "http://127.255.255.254/",
    "http://2130706433/",
    "http://0x7f000001/",
    "http://0x7f.0x0.0x0.0x1/",
    "http://0x7f.1/",
    "http://0X7F.0.0.1/",
    "http://017700000001/",
    "http://0177.0.0.1/",
    "http://0177.0.0.01/",
    "http://00000177.0.0.1/",
    "http://127.0.0.0x1/",
    "http://①②⑦.⓪.⓪.①/",
    "http://１２７.０.０.１/",
    "http://127。0。0。1/",
    "http://127.0.0｡1/",
    "http://%31%32%37.0.0.1/",
    "http://127.0.0.1%2e/",
    "http://12\n7.0.0.1/",
    "http:\\\\127.0.0.1\\",
    "http:/127.0.0.1/",
    "http:127.0.0.1",
    "HTTP://127.0.0.1/",
    "  http://127.0.0.1/  ",
    "http:////127.0.0.1/",
    "http://0/",
    "http://0.0.0.0/",
    "http://0.0.0.0.:80/",
    "http://0x0/",
    "http://00/",
    // Other private networks.
    "http://10.0.0.1/",
    "http://10.255.255.255/",
    "http://167772161/",
    "http://0xa000001/",
    "http://012.0.0.1/",
    "http://172.16.0.1/",
    "http://172.31.255.255/",
    "http://2886729729/",
    "http://192.168.0.1/",
    "http://192.168.1/",
    "http://3232235777/",
    "http://0xc0a80101/",
    "http://100.64.0.1/",
    "http://100.127.255.255/",
    "http://100.100.100.200/",
    "http://169.254.0.1/",
    "http://169.254.169.254/latest/meta-data/",
    "http://2852039166/",
    "http://0xa9fea9fe/",
    "http://0xa9.0xfe.0xa9.0xfe/",
    "http://0251.0376.0251.0376/",
    "http://169.16689662/",
    "http://169.254.43518/",
    "http://169.254.170.2/",
    "http://168.63.129.16/",
    "http://192.0.0.192/",
    "http://192.0.2.1/",
    "http://192.88.99.1/",
    "http://198.18.0.1/",
    "http://198.19.255.255/",
    "http://198.51.100.1/",
    "http://203.0.113.1/",
    "http://224.0.0.1/",
    "http://239.255.255.250/",
    "http://240.0.0.1/",
    "http://255.255.255.255/",
    "http://4294967295/",
    // IPv6, and IPv4 inside of it.
    "http://[::1]/",
    "http://[::]/",
    "http://[0:0:0:0:0:0:0:1]/",
    "http://[0000::0001]/",
    "http://[::127.0.0.1]/",
    "http://[::ffff:127.0.0.1]/",
    "http://[::ffff:7f00:1]/",
    "http://[::FFFF:10.0.0.1]/",
    "http://[::ffff:169.254.169.254]/",
    "http://[::ffff:8.8.8.8]/",
    "http://[::ffff:0:127.0.0.1]/",
    "http://[64:ff9b::127.0.0.1]/",
    "http://[64:ff9b::a9fe:a9fe]/",
    "http://[64:ff9b::10.0.0.1]/",
    "http://[64:ff9b:1::1]/",
    "http://[2002:7f00:1::]/",
    "http://[2002:a9fe:a9fe::1]/",
    "http://[2002:808:808::1]/",
    "http://[2001::1]/",
    "http://[2001:0:4136:e378:8000:63bf:80ff:fffe]/",
    "http://[2001:10::1]/",
    "http://[2001:20::1]/",
    "http://[2001:db8::1]/",
    "http://[3fff::1]/",
    "http://[100::1]/",
    "http://[fc00::1]/",
    "http://[fd00:ec2::254]/",
    "http://[fdff:ffff::1]/",
    "http://[fe80::1]/",
    "http://[febf::1]/",
    "http://[fec0::1]/",
    "http://[ff02::1]/",
    "http://[ff0e::1]/",
    "http://[4000::1]/",
    // What is no address of a page.
    "",
    "x",
    "//example.com/",
    "/etc/passwd",
    "ftp://example.com/",
    "file:///etc/passwd",
    "gopher://example.com/",
    "dict://example.com:11211/",
    "ws://example.com/",
    "data:text/plain,x",
    "javascript:alert(1)",
    "http://",
    "http://./",
    "http://.../",
    "http://:80/",
    "http://[::1/",
    "http://[fe80::1%25eth0]/",
    "http://256.1.1.1/",
    "http://1.2.3.4.5/",
    "http://0x100000000/",
    "http://999999999999/",
    "http://09.1.1.1/",
    "http://exa mple.com/",
    "http://example.com:99999/",
    "http://a<b/",
    // Credentials, and hosts that hide behind them.
    "http://user@example.com/",
    "http://user:pass@example.com/",
    "http://:pass@example.com/",
    "http://example.com@127.0.0.1/",
    "http://example.com:80@127.0.0.1/",
    "http://127.0.0.1#@example.com/",
    "http://127.0.0.1\\@example.com/",
    "http://127.0.0.1?@example.com/",
];

/// What may be asked, as far as it can be seen without asking anybody.
const PASSED: &[&str] = &[
    "http://example.com/",
    "https://example.com./a?b=c#d",
    "HTTPS://EXAMPLE.com:8443/",
    "http://8.8.8.8/",
    "http://134744072/",
    "http://1.1.1.1:8080/",
    "http://[2606:4700:4700::1111]/",
    "http://[64:ff9b::8.8.8.8]/",
    "http://münchen.example/",
    "http://127.evil.example/",
    "http://127.0.0.1.evil.example/",
    "http://localhost.evil.example/",
    "http://mylocal/",
    "http://11.0.0.1/",
    "http://172.32.0.1/",
    "http://100.128.0.1/",
    "http://192.169.0.1/",
    "http://169.253.1.1/",
    "http://198.20.0.1/",
    "http://223.255.255.255/",
];

#[test]
fn nothing_private_is_asked_however_it_is_spelled() {
    let policy = Policy::default();
    assert!(REFUSED.len() >= 150, "{}", REFUSED.len());
    for url in REFUSED {
        assert!(policy.parse(url).is_err(), "{url:?} passes: {:?}", policy.parse(url));
    }
    let long = format!("http://example.com/{}", "x".repeat(MAX_URL));
    assert!(policy.parse(&long).is_err());
    let grows = format!("http://example.com/{}", "é".repeat(MAX_URL / 3));
    assert!(grows.len() < MAX_URL && policy.parse(&grows).is_err());
}

#[test]
fn public_addresses_may_be_asked() {
    for url in PASSED {
        let parsed = Policy::default().parse(url);
        assert!(!matches!(parsed, Err(_) | Ok((_, Place::AllowedName(_)))), "{url}: {parsed:?}");
    }
    let place = |url: &str| Policy::default().parse(url).unwrap().1;
    assert_eq!(place("http://Example.COM./"), Place::Name("example.com".into()));
    assert_eq!(place("http://134744072/"), Place::Address([8, 8, 8, 8].into()));
}

#[test]
fn the_configuration_names_exceptions_and_nothing_beside_them() {
    let policy = |names: &[&str]| {
        Policy::new(&SsrfConfig {
            allowed_hostnames: names.iter().map(|name| (*name).to_owned()).collect(),
            ..SsrfConfig::default()
        })
    };
    let one = policy(&["127.0.0.1:8080", "Wiki.Internal", "::1", "10.0.0.1"]);
    for url in [
        "http://127.0.0.1:8080/",
        "http://0x7f.1:8080/",
        "https://10.0.0.1:9/x",
        "http://[::1]:1234/",
        "http://wiki.internal./",
    ] {
        assert!(one.parse(url).is_ok(), "{url}");
    }
    for url in [
        "http://127.0.0.1/",
        "http://127.0.0.1:8081/",
        "http://127.0.0.2:8080/",
        "http://a.wiki.internal/",
        "http://10.0.0.2/",
        "http://[::ffff:127.0.0.1]:8080/",
        "ftp://127.0.0.1:8080/",
        "http://u@127.0.0.1:8080/",
    ] {
        assert!(one.parse(url).is_err(), "{url}");
    }
    assert!(policy(&["127.0.0.1:80"]).parse("http://127.0.0.1/").is_ok());
    for nothing in ["", "*", "http://127.0.0.1", "127.0.0.1/8", "a b", ":80"] {
        assert!(policy(&[nothing]).parse("http://127.0.0.1/").is_err(), "{nothing}");
    }
}

#[test]
fn two_ranges_can_be_opened_without_their_secrets() {
    let policy = Policy::new(&SsrfConfig {
        allow_rfc2544_benchmark_range: true,
        allow_ipv6_unique_local_range: true,
        ..SsrfConfig::default()
    });
    assert!(policy.parse("http://198.18.0.1/").is_ok());
    assert!(policy.parse("http://[fc00::1]/").is_ok());
    assert!(policy.parse("http://[fd00:ec2::254]/").is_err());
    assert!(policy.parse("http://10.0.0.1/").is_err());
}
