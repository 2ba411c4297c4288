//! Kubeconfig files.

use std::{fs, path::Path};

use anyhow::{Context, Result};
use serde_json::{Value, json};

/// The credentials of a kubeconfig's user.
#[derive(Clone, Copy, Debug)]
pub enum Credentials<'a> {
    /// A client certificate and its key, as PEM files.
    Certificate {
        /// The certificate.
        certificate: &'a Path,
        /// Its private key.
        key: &'a Path,
    },
    /// A bearer token of a `ServiceAccount`.
    Token(&'a str),
}

/// Writes a kubeconfig with one context to `path`, readable by the owner alone.
///
/// `server` is the URL of the API server, `authority` the PEM file of the CA that signed its certificate,
/// `namespace` the default namespace.
pub fn write(
    path: &Path,
    server: &str,
    authority: &Path,
    credentials: Credentials<'_>,
    namespace: &str,
) -> Result<()> {
    let user = match credentials {
        Credentials::Certificate { certificate, key } => {
            json!({"client-certificate": certificate, "client-key": key})
        }
        Credentials::Token(token) => json!({"token": token}),
    };
    // JSON is YAML
    let text = document(server, authority, &user, namespace).to_string();
    fs::write(path, text)
        .and_then(|()| owner_only(path))
        .with_context(|| format!("cannot write {}", path.display()))
}

fn document(server: &str, authority: &Path, user: &Value, namespace: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "e2e", "cluster": {"server": server, "certificate-authority": authority}}],
        "users": [{"name": "user", "user": user}],
        "contexts": [{"name": "e2e", "context": {"cluster": "e2e", "user": "user", "namespace": namespace}}],
        "current-context": "e2e",
    })
}

/// Helm warns about a kubeconfig that others can read.
fn owner_only(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))
}
