//! From when to when a certificate is valid: the one thing that is wanted of it that rustls does not tell.

use super::pair::Life;
use std::time::SystemTime;

const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// The `validity` of the X.509 certificate `der` (RFC 5280, section 4.1).
pub(super) fn of(der: &[u8]) -> Option<Life> {
    let (certificate, _) = expect(der, SEQUENCE)?;
    let (mut rest, _) = expect(certificate, SEQUENCE)?;
    if rest.first() == Some(&VERSION) {
        rest = next(rest)?.2;
    }
    // serialNumber, signature, issuer.
    for _ in 0..3 {
        rest = next(rest)?.2;
    }
    let (validity, _) = expect(rest, SEQUENCE)?;
    let (tag, from, rest) = next(validity)?;
    let from = time(tag, from)?;
    let (tag, until, _) = next(rest)?;
    Some(Life { from, until: time(tag, until)? })
}

/// Tag and content of the first element, and what follows it.
fn next(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (tag, rest) = der.split_first()?;
    let (first, mut rest) = rest.split_first()?;
    let mut length = usize::from(*first);
    if length >= 0x80 {
        let bytes = rest.get(..length - 0x80).filter(|bytes| (1..=4).contains(&bytes.len()))?;
        rest = &rest[bytes.len()..];
        length = bytes.iter().fold(0, |length, byte| length << 8 | usize::from(*byte));
    }
    Some((*tag, rest.get(..length)?, rest.get(length..)?))
}

fn expect(der: &[u8], wanted: u8) -> Option<(&[u8], &[u8])> {
    next(der).filter(|(tag, ..)| *tag == wanted).map(|(_, content, rest)| (content, rest))
}

/// `YYMMDDHHMMSSZ`, where years from 50 on are of the last century, or `YYYYMMDDHHMMSSZ`.
fn time(tag: u8, text: &[u8]) -> Option<SystemTime> {
    let text = std::str::from_utf8(text).ok().filter(|text| text.is_ascii())?;
    let text = match tag {
        UTC_TIME if text.len() == 13 => format!("{}{text}", if text >= "50" { "19" } else { "20" }),
        GENERALIZED_TIME if text.len() == 15 => text.to_owned(),
        _ => return None,
    };
    let part = |from: usize, to: usize| &text[from..to];
    let (date, time) =
        ([part(0, 4), part(4, 6), part(6, 8)].join("-"), [part(8, 10), part(10, 12), part(12, 14)].join(":"));
    humantime::parse_rfc3339(&format!("{date}T{time}{}", part(14, 15))).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, UNIX_EPOCH};

    #[test]
    fn both_ways_to_write_a_time() {
        let at = |seconds| Some(UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(time(UTC_TIME, b"261121223344Z"), at(1_795_300_424));
        assert_eq!(time(GENERALIZED_TIME, b"20500101000000Z"), at(2_524_608_000));
        assert_eq!(time(UTC_TIME, b"700101000000Z"), at(0));
        for (tag, text) in [
            (UTC_TIME, &b"261121223344+"[..]),
            (UTC_TIME, b"2611212233Z"),
            (GENERALIZED_TIME, b"261121223344Z"),
            (2, b"261121223344Z"),
            (UTC_TIME, b"\xff61121223344Z"),
            (UTC_TIME, b"269921223344Z"),
        ] {
            assert_eq!(time(tag, text), None, "{text:?}");
        }
    }

    #[test]
    fn a_certificate_says_when_it_is_valid() {
        let mut params = rcgen::CertificateParams::new(vec!["a".to_owned()]).unwrap();
        let (from, until) =
            (UNIX_EPOCH + Duration::from_secs(1_700_000_000), UNIX_EPOCH + Duration::from_secs(4_000_000_000));
        (params.not_before, params.not_after) = (from.into(), until.into());
        let key = rcgen::KeyPair::generate().unwrap();
        let der = params.self_signed(&key).unwrap().der().to_vec();
        assert_eq!(of(&der), Some(Life { from, until }));
        for length in 0..der.len() {
            assert_eq!(of(&der[..length]), None, "cut at {length}");
        }
        for place in 0..der.len().min(160) {
            let mut bent = der.clone();
            bent[place] ^= 0xff;
            // Whatever comes of it, it comes.
            let _ = of(&bent);
        }
        for der in [&b""[..], b"\x30\x80", b"\x30\x85\x01\x01\x01\x01\x01", b"\x30\x84\xff\xff\xff\xff"] {
            assert_eq!(of(der), None);
        }
    }
}
