//! A namespace for one test.

use std::{ffi::OsStr, fmt, fs, process::Stdio, time::Duration};

use anyhow::{Context, Result, anyhow};
use k8s_openapi::api::core::v1::{Namespace as Object, ServiceAccount};
use kube::{Api, api::PostParams};

use crate::{Cluster, Output, wait};

/// A namespace that is deleted on drop.
///
/// If the test panics, its events, pods and Cairn objects are first written to `NAMESPACE.txt` in the state
/// folder, which is then kept.
pub struct Namespace<'a> {
    cluster: &'a Cluster,
    name: String,
}

impl Cluster {
    /// Creates a unique namespace `PREFIX-NUMBER` in which pods can be created at once.
    pub async fn namespace(&self, prefix: &str) -> Result<Namespace<'_>> {
        let name = format!("{prefix}-{}", self.number());
        let client = self.client().await?;
        let mut object = Object::default();
        object.metadata.name = Some(name.clone());
        let created = Api::<Object>::all(client.clone()).create(&PostParams::default(), &object).await;
        created.with_context(|| format!("cannot create namespace {name}"))?;
        let namespace = Namespace { cluster: self, name };
        // pods are refused until the controller manager has created it
        let accounts = Api::<ServiceAccount>::namespaced(client, namespace.name());
        let made = wait::until(Duration::from_mins(3), async || accounts.get("default").await).await;
        made.map_err(|seen| anyhow!("no default ServiceAccount in namespace {namespace}: {seen}"))?;
        Ok(namespace)
    }
}

impl Namespace<'_> {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs kubectl in this namespace; an error contains its output.
    pub async fn kubectl(&self, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Result<Output> {
        self.kubectl_with(arguments, "").await
    }

    /// As [`Namespace::kubectl`], with `input` on stdin.
    pub async fn kubectl_with(
        &self,
        arguments: impl IntoIterator<Item = impl AsRef<OsStr>>,
        input: &str,
    ) -> Result<Output> {
        let here = [format!("--namespace={}", self.name).into()];
        let arguments = arguments.into_iter().map(|argument| argument.as_ref().to_owned());
        self.cluster.kubectl_with(here.into_iter().chain(arguments), input).await
    }

    /// Applies a manifest to this namespace.
    pub async fn apply(&self, manifest: &str) -> Result<Output> {
        self.kubectl_with(["apply", "-f-"], manifest).await
    }

    /// Writes the objects and events of the namespace into the state folder, as far as readable.
    fn dump(&self) {
        let mut text = String::new();
        for what in [["events", "--sort-by=.lastTimestamp"], ["pods", "-oyaml"], ["cairn", "-oyaml"]] {
            let output = self.cluster.command("kubectl").args(["-n", &self.name, "get"]).args(what).output();
            let said = output.map(|output| [output.stdout, output.stderr].concat()).unwrap_or_default();
            text +=
                &["# kubectl get ", &what.join(" "), "\n", &String::from_utf8_lossy(&said), "\n"].concat();
        }
        let path = self.cluster.plane().state.join(format!("{}.txt", self.name));
        if fs::write(&path, text).is_ok() {
            eprintln!("what happened in namespace {}: {}", self.name, path.display());
        }
    }
}

impl fmt::Display for Namespace<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl Drop for Namespace<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.dump();
        }
        let mut kubectl = self.cluster.command("kubectl");
        kubectl.args(["delete", "namespace", &self.name, "--wait=false"]);
        // best effort: the whole cluster is deleted soon
        let _ = kubectl.stdout(Stdio::null()).stderr(Stdio::null()).status();
    }
}
