//! Creates and verifies a certificate with its private key and its CA.
//!
//! Each certificate has its own CA. The CA's key is dropped after it has signed the certificate, so the key cannot be
//! stolen. Every renewal therefore changes the CA too.

use crate::error::{Error, failed};
use crate::state::Validity;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::sign::CertifiedKey;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use x509_parser::time::ASN1Time;

/// Time from the start of a certificate's validity to its creation. The clock of a client may be this much behind.
pub(super) const BACKDATED: Duration = Duration::from_secs(60 * 60);

/// A certificate, its key and its CA, in PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CertPair {
    pub(super) ca: Vec<u8>,
    pub(super) cert: Vec<u8>,
    pub(super) key: Vec<u8>,
}

impl CertPair {
    /// Creates a pair for the DNS names `names`, valid from now on for `life`.
    pub(super) fn generate(names: &[String], now: SystemTime, life: Duration) -> Result<CertPair, Error> {
        let make = || -> Result<CertPair, rcgen::Error> {
            let (from, until) = (now - BACKDATED, now + life);
            let named = |mut params: CertificateParams, name: &str| {
                (params.not_before, params.not_after) = (from.into(), until.into());
                params.distinguished_name = DistinguishedName::new();
                params.distinguished_name.push(DnType::CommonName, name);
                params
            };
            let seconds = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
            let mut ca = named(CertificateParams::new(Vec::new())?, &format!("podgate-webhook-ca@{seconds}"));
            ca.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
            ca.key_usages = vec![KeyUsagePurpose::KeyCertSign];
            let ca_key = KeyPair::generate()?;
            let ca_cert = ca.self_signed(&ca_key)?;
            let first = names.first().map_or("podgate-webhook", String::as_str);
            // A common name is limited to 64 characters. Clients ignore the common name if the certificate has DNS
            // names.
            let mut leaf = named(CertificateParams::new(names.to_vec())?, &first[..first.len().min(64)]);
            leaf.key_usages = vec![KeyUsagePurpose::DigitalSignature];
            leaf.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
            leaf.use_authority_key_identifier_extension = true;
            let key = KeyPair::generate()?;
            let cert = leaf.signed_by(&key, &Issuer::from_params(&ca, &ca_key))?;
            let [ca, cert, key] = [ca_cert.pem(), cert.pem(), key.serialize_pem()].map(String::into_bytes);
            Ok(CertPair { ca, cert, key })
        };
        make().map_err(failed("cannot create a certificate"))
    }

    /// Returns the key to serve if a client that trusts the CA accepts the certificate at `now` for all of `names`.
    pub(super) fn verify(&self, names: &[String], now: SystemTime) -> Result<(CertifiedKey, Validity), Error> {
        let (key, life) = parse(&self.cert, &self.key)?;
        let mut roots = RootCertStore::empty();
        for ca in CertificateDer::pem_slice_iter(&self.ca) {
            roots.add(ca.map_err(failed("the CA is not valid PEM"))?).map_err(failed("the CA is invalid"))?;
        }
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::new(ring::default_provider()))
            .build()
            .map_err(failed("the CA is invalid"))?;
        let (leaf, between) = key.cert.split_first().ok_or("no certificate")?;
        let now = UnixTime::since_unix_epoch(now.duration_since(UNIX_EPOCH).unwrap_or_default());
        for name in names {
            let name = ServerName::try_from(name.as_str()).map_err(|_| format!("{name:?} is not a DNS name"))?;
            let verified = verifier.verify_server_cert(leaf, between, &name, &[], now);
            verified.map_err(failed("the certificate is invalid"))?;
        }
        Ok((key, life))
    }
}

/// Parses a certificate chain and its private key from PEM. Returns both with the certificate's validity.
pub(super) fn parse(cert: &[u8], key: &[u8]) -> Result<(CertifiedKey, Validity), Error> {
    let certs: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(cert).collect();
    let certs = certs.map_err(failed("the certificate is not valid PEM"))?;
    let first = certs.first().ok_or("no certificate found")?;
    let life = validity(first).ok_or("cannot read the certificate's validity")?;
    let key = PrivateKeyDer::from_pem_slice(key).map_err(failed("the private key is invalid"))?;
    let key =
        CertifiedKey::from_der(certs, key, &ring::default_provider()).map_err(failed("the private key is invalid"))?;
    Ok((key, life))
}

fn validity(der: &[u8]) -> Option<Validity> {
    let (_, certificate) = x509_parser::parse_x509_certificate(der).ok()?;
    let at = |time: ASN1Time| UNIX_EPOCH + Duration::from_secs(u64::try_from(time.timestamp()).unwrap_or_default());
    let validity = certificate.validity();
    Some(at(validity.not_before)..at(validity.not_after))
}

pub(super) fn ca_validity(pem: &[u8]) -> Option<Validity> {
    validity(&CertificateDer::from_pem_slice(pem).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_certificate_is_valid_for_its_lifetime() {
        let now = UNIX_EPOCH + Duration::from_secs(1_795_300_424);
        let life = Duration::from_secs(3600);
        let names = ["podgate-webhook.podgate.svc".to_owned(), "podgate-webhook.podgate".to_owned()];
        let pair = CertPair::generate(&names, now, life).unwrap();
        let (_, found) = pair.verify(&names, now).unwrap();
        assert_eq!(found, now - BACKDATED..now + life);
        assert!(pair.verify(&names, now - BACKDATED).is_ok() && pair.verify(&names, now + life / 2).is_ok());
        for (names, at, text) in [
            (&names[..], now + life + Duration::from_secs(1), "xpired"),
            (&names, now - BACKDATED - Duration::from_secs(1), "valid yet"),
            (&["other.podgate.svc".to_owned()], now, "not valid for name"),
        ] {
            let error = pair.verify(names, at).unwrap_err().to_string();
            assert!(error.contains(text), "{error}");
        }
        assert_eq!((ca_validity(&pair.ca), ca_validity(b"")), (Some(found), None));
    }
}
