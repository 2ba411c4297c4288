//! The CRDs on a real API server: they install without warnings, have descriptions, and validate as documented.

#![expect(clippy::unwrap_used, reason = "a test")]

use std::{collections::BTreeMap, time::Duration};

use e2e::{Cluster, product::tree, wait::wait_for};
use futures::{StreamExt as _, stream};
use kube::{
    Api, Client, ResourceExt as _,
    api::{ApiResource, DeleteParams, DynamicObject, GroupVersionKind, PostParams},
    core::response::Status,
};
use serde_json::Value;
use tokio::sync::OnceCell;

use cases::{Case, Examples, change};

#[path = "../../crds/tests/cases/mod.rs"]
mod cases;

/// The cluster with the CRDs, and kubectl's output of the installation.
async fn installed() -> &'static (&'static Cluster, e2e::Output) {
    static INSTALLED: OnceCell<(&'static Cluster, e2e::Output)> = OnceCell::const_new();
    INSTALLED
        .get_or_init(async || {
            let cluster = Cluster::shared();
            let manifests = tree("crds/manifests");
            let said =
                cluster.kubectl(["apply".as_ref(), "-f".as_ref(), manifests.as_os_str()]).await.unwrap();
            let waited = cluster
                .kubectl(["wait", "crd", "--all", "--for=condition=Established", "--timeout=30s"])
                .await;
            waited.unwrap();
            (cluster, said)
        })
        .await
}

#[tokio::test]
async fn the_crds_install_without_warnings() {
    let (cluster, said) = installed().await;
    assert_eq!(said.stderr, "");
    assert_eq!(said.stdout.lines().count(), 5, "{}", said.stdout);
    // applied again, nothing differs: the API server stores what the manifests contain
    let manifests = tree("crds/manifests");
    let again = cluster.kubectl(["apply".as_ref(), "-f".as_ref(), manifests.as_os_str()]).await.unwrap();
    assert_eq!(again.stdout.matches(" unchanged").count(), 5, "{}", again.stdout);
}

/// The Api of a kind in the namespace of its examples.
fn api(client: &Client, base: &Value) -> Api<DynamicObject> {
    let (version, kind) = (base["apiVersion"].as_str().unwrap(), base["kind"].as_str().unwrap());
    let (group, version) = version.split_once('/').unwrap();
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    match base["metadata"]["namespace"].as_str() {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    }
}

fn object(value: &Value) -> DynamicObject {
    serde_json::from_value(value.clone()).unwrap()
}

/// The API server's response to a dry-run create, or to an update of `old`.
async fn asked(api: &Api<DynamicObject>, new: &Value, old: Option<&Value>) -> Result<(), Box<Status>> {
    let answer = match old {
        None => api.create(&parameters(true), &object(new)).await,
        Some(old) => {
            let before = api.create(&parameters(false), &object(old)).await.unwrap();
            let mut after = object(new);
            after.metadata.resource_version = before.resource_version();
            let answer = api.replace(&before.name_any(), &parameters(true), &after).await;
            api.delete(&before.name_any(), &DeleteParams::default()).await.unwrap();
            answer
        }
    };
    match answer {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) => Err(status),
        Err(other) => panic!("{other}"),
    }
}

fn parameters(dry_run: bool) -> PostParams {
    PostParams { dry_run, ..PostParams::default() }
}

fn examples() -> BTreeMap<String, Examples> {
    cases::read(&tree("crds/tests/rules"))
}

/// The difference between the API server's responses to a case and the expected ones, if any.
async fn judge(api: &Api<DynamicObject>, base: &Value, case: &Case) -> Option<String> {
    let old = case.old.as_ref().map(|changes| change(base, changes));
    if let Err(status) = asked(api, &change(base, &case.accepted), old.as_ref()).await {
        return Some(format!("accepted: {}", status.message));
    }
    let Err(status) = asked(api, &change(base, &case.rejected), old.as_ref()).await else {
        return Some("rejected: it was accepted".to_owned());
    };
    // the API server reports the whole object as `<nil>`
    let field = if case.field.is_empty() { "<nil>" } else { &case.field };
    let causes = status.details.iter().flat_map(|details| &details.causes);
    let promised =
        causes.into_iter().any(|cause| cause.field == field && cause.message.ends_with(&case.message));
    (!promised).then(|| format!("expected {field}: {:?}, got {}", case.message, status.message))
}

#[tokio::test]
async fn the_api_server_enforces_every_rule_with_its_message() {
    let (cluster, _) = installed().await;
    let client = cluster.client().await.unwrap();
    let (mut wrong, mut count) = (Vec::new(), 0);
    for (kind, examples) in examples() {
        let api = api(&client, &examples.base);
        asked(&api, &examples.base, None).await.unwrap_or_else(|status| panic!("{kind}: {}", status.message));
        for case in &examples.cases {
            count += 1;
            wrong.extend(
                judge(&api, &examples.base, case)
                    .await
                    .map(|wrong| format!("{kind}, {}: {wrong}", case.rule)),
            );
        }
    }
    assert!(wrong.is_empty(), "{} of {count} rules:\n{}", wrong.len(), wrong.join("\n"));
    assert!(count >= 30, "only {count} rules");
}

#[tokio::test]
async fn the_largest_application_is_accepted() {
    let (cluster, _) = installed().await;
    let base = &examples()["actorapplication"].base;
    let largest = cases::largest_application(base);
    let api = api(&cluster.client().await.unwrap(), base);
    asked(&api, &largest, None).await.unwrap_or_else(|status| panic!("{}", status.message));
}

/// Every field has a description in `kubectl explain`, except those of the pod template.
#[tokio::test]
async fn kubectl_explain_describes_every_field() {
    let (cluster, _) = installed().await;
    let definitions = cluster.kubectl(["get", "crd", "-ojson"]).await.unwrap().stdout;
    let definitions: Value = serde_json::from_str(&definitions).unwrap();
    let mut levels = Vec::new();
    for definition in definitions["items"].as_array().unwrap() {
        let name = definition["spec"]["names"]["singular"].as_str().unwrap();
        collect(name, &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"], &mut levels);
    }
    assert!(levels.len() > 35, "{levels:?}");
    // The OpenAPI document of a CRD is published a moment after the CRD is served.
    for level in levels.iter().filter(|level| !level.contains('.')) {
        wait_for("the API server to describe the kind", Duration::from_mins(3), async || {
            cluster.kubectl(["explain", level]).await
        })
        .await;
    }
    let explained = stream::iter(&levels).map(async |level| {
        let said = cluster.kubectl(["explain", level]).await.unwrap().stdout;
        let nothing = said.contains("<no description>") || !said.contains("DESCRIPTION:\n    ");
        nothing.then(|| format!("kubectl explain {level}\n{said}"))
    });
    let silent: Vec<_> = explained.buffer_unordered(4).filter_map(async |said| said).collect().await;
    assert!(silent.is_empty(), "{}", silent.join("\n"));
}

/// The path of every object in a schema, except the pod template and types described by Kubernetes.
fn collect(path: &str, schema: &Value, levels: &mut Vec<String>) {
    levels.push(path.to_owned());
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        if ["metadata", "template", "nodeSelector", "tolerations", "env"].contains(&name.as_str())
            && !path.ends_with("instance.spec")
        {
            continue;
        }
        let inner = if property["items"].is_object() { &property["items"] } else { property };
        if inner["properties"].is_object() {
            collect(&format!("{path}.{name}"), inner, levels);
        }
    }
}
