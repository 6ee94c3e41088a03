//! TLS 1.2 and 1.3 without verification of certificates, like the kubelet's probes.

use super::BoundedStream;
use crate::failure::Result;
use podgate::core::text::error_chain;
use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

const H2: &[u8] = b"h2";

/// Opens a TLS connection to `host` on `stream`. Returns the connection, and true if the server chose HTTP/2.
///
/// Like the kubelet, the client offers HTTP/2 too, because some servers support only HTTP/2.
pub(super) async fn handshake(stream: BoundedStream, host: &str) -> Result<(TlsStream<BoundedStream>, bool)> {
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("TLS: {error}"))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AcceptAnyCert))
        .with_no_client_auth();
    config.alpn_protocols = vec![H2.to_vec(), b"http/1.1".to_vec()];
    config.resumption = Resumption::disabled();
    // If the name is invalid, use an IP address instead, because rustls sends no SNI for an IP address.
    let name = ServerName::try_from(host.to_owned()).unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED).into());
    let stream = TlsConnector::from(Arc::new(config))
        .connect(name, stream)
        .await
        .map_err(|error| format!("TLS: {}", error_chain(&error)))?;
    let is_h2 = stream.get_ref().1.alpn_protocol() == Some(H2);
    Ok((stream, is_h2))
}

#[derive(Debug)]
struct AcceptAnyCert;

impl ServerCertVerifier for AcceptAnyCert {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        let mut schemes = ring::default_provider().signature_verification_algorithms.supported_schemes();
        // Offer also the signature schemes that the kubelet offers and ring does not support. The client verifies no
        // signature, so it needs no support for these schemes.
        schemes.extend([
            SignatureScheme::ECDSA_NISTP521_SHA512,
            SignatureScheme::RSA_PKCS1_SHA1,
            SignatureScheme::ECDSA_SHA1_Legacy,
        ]);
        schemes
    }
}
