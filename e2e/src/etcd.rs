//! Writes to etcd past the API server, which then cannot read the objects of a kind.

use anyhow::{Result, ensure};
use k8s_openapi::ByteString;
use serde_json::{Value, json};

use crate::{Cluster, process::http_post};

/// The prefix of the keys of objects.
const REGISTRY: &str = "/registry/";

impl Cluster {
    /// Writes an object that cannot be decoded, such as `priorityclasses/broken`: lists and watches of its kind then fail.
    pub async fn corrupt(&self, object: &str) -> Result<()> {
        let key = ByteString(format!("{REGISTRY}{object}").into_bytes());
        self.etcd("put", &json!({"key": key, "value": ByteString(b"broken".to_vec())})).await
    }

    /// Removes such an object.
    pub async fn remove_corrupt(&self, object: &str) -> Result<()> {
        let key = ByteString(format!("{REGISTRY}{object}").into_bytes());
        self.etcd("deleterange", &json!({"key": key})).await
    }

    async fn etcd(&self, request: &str, body: &Value) -> Result<()> {
        let port = self.plane().ports["etcd"];
        let answer = http_post(port, &format!("/v3/kv/{request}"), &body.to_string()).await?;
        ensure!(answer.status == 200, "etcd answers {}: {}", answer.status, answer.body);
        Ok(())
    }
}
