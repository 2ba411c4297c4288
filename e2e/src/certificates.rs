//! The certificates of one control plane, signed by its own CA.

use std::{
    fs, io,
    net::{IpAddr, Ipv4Addr},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType,
};

use crate::real_nodes::network;

/// A certificate authority for one control plane. It writes PEM files into one folder.
pub struct Authority {
    folder: PathBuf,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    /// Creates a new authority and writes `ca.crt` and `ca.key` into the existing `folder`.
    pub fn create(folder: &Path) -> Result<Self> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "cairn-e2e-ca");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages =
            vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
        let key = KeyPair::generate()?;
        let certificate = params.self_signed(&key)?;
        save(&folder.join("ca.crt"), &certificate.pem())?;
        save(&folder.join("ca.key"), &key.serialize_pem())?;
        Ok(Self { folder: folder.to_owned(), issuer: Issuer::new(params, key) })
    }

    /// The authority's own certificate.
    pub fn certificate(&self) -> PathBuf {
        self.path("ca", "crt")
    }

    /// The file of `name` with this `extension`: `crt` or `key`.
    pub fn path(&self, name: &str, extension: &str) -> PathBuf {
        self.folder.join(format!("{name}.{extension}"))
    }

    /// Signs a client certificate with the Kubernetes `user` and `groups`.
    pub fn client(&self, name: &str, user: &str, groups: &[&str]) -> Result<()> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, user);
        for group in groups {
            params.distinguished_name.push(DnType::OrganizationName, *group);
        }
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(name, params)
    }

    /// Signs a serving certificate for loopback and for the API server's names and address inside pods.
    pub fn server(&self, name: &str) -> Result<()> {
        let names = ["localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"];
        let mut params = CertificateParams::new(names.map(str::to_owned).to_vec())?;
        for address in [Ipv4Addr::LOCALHOST, network::SERVICE] {
            params.subject_alt_names.push(SanType::IpAddress(IpAddr::V4(address)));
        }
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.sign(name, params)
    }

    /// Creates the key pair that signs `ServiceAccount` tokens: `NAME.key`, and `NAME.pub` to verify them.
    pub fn token_keys(&self, name: &str) -> Result<()> {
        let key = KeyPair::generate()?;
        save(&self.path(name, "key"), &key.serialize_pem())?;
        save(&self.path(name, "pub"), &key.public_key_pem())
    }

    fn sign(&self, name: &str, mut params: CertificateParams) -> Result<()> {
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer)?;
        save(&self.path(name, "crt"), &certificate.pem())?;
        save(&self.path(name, "key"), &key.serialize_pem())
    }
}

/// Writes a file that only the owner can read.
fn save(path: &Path, text: &str) -> Result<()> {
    use std::os::unix::fs::OpenOptionsExt;
    let write = || -> io::Result<()> {
        let mut file =
            fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
        io::Write::write_all(&mut file, text.as_bytes())
    };
    write().with_context(|| format!("cannot write {}", path.display()))
}
