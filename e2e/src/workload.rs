//! Runs the chart's workloads as processes, because KWOK's nodes run no containers.
//!
//! It does what a kubelet would: arguments and environment of the container, values from fields,
//! references to variables, probes, and the token of the `ServiceAccount`. Unsupported features
//! (values from `ConfigMap`s, …) are errors, so that nothing is silently left out; only volumes
//! are ignored, as a process sees the machine's files.
//!
//! Only ports differ. Each port that is declared or probed becomes a free one on 127.0.0.1,
//! also where an argument or a variable is exactly that number (`8080`, `--port=8080`) or an address to listen
//! on (`0.0.0.0:8080`, `--listen=[::]:8080`).

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use anyhow::{Context, Result, bail, ensure};
use k8s_openapi::{
    api::{
        apps::v1::{DaemonSet, Deployment},
        authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec},
        core::v1::{Container, Node, PodSpec, Probe, ServiceAccount},
    },
    apimachinery::pkg::util::intstr::IntOrString,
};
use kube::{Api, api::PostParams};

use crate::{
    Cluster, Process,
    kubeconfig::{self, Credentials},
    ports,
    process::Launch,
};

/// The validity of a token: longer than any run.
const TOKEN_SECONDS: i64 = 6 * 3600;

/// A workload of the cluster, to be run as a process.
pub struct Workload<'a> {
    cluster: &'a Cluster,
    namespace: String,
    name: String,
    pod: PodSpec,
    fields: BTreeMap<String, String>,
    variables: BTreeMap<String, String>,
    arguments: Vec<String>,
    left_out: BTreeSet<&'static str>,
    server: Option<String>,
}

impl Cluster {
    /// Reads a Deployment.
    pub async fn deployment(&self, namespace: &str, name: &str) -> Result<Workload<'_>> {
        let found = Api::<Deployment>::namespaced(self.client().await?, namespace).get(name).await;
        let object = found.with_context(|| format!("cannot read Deployment {namespace}/{name}"))?;
        let pod = object.spec.and_then(|spec| spec.template.spec);
        Ok(Workload::new(self, namespace, name, pod.context("it has no pod template")?))
    }

    /// Reads a `DaemonSet`. Its processes may need the name of their node:
    /// `.field("spec.nodeName", …)`.
    pub async fn daemon_set(&self, namespace: &str, name: &str) -> Result<Workload<'_>> {
        let found = Api::<DaemonSet>::namespaced(self.client().await?, namespace).get(name).await;
        let object = found.with_context(|| format!("cannot read DaemonSet {namespace}/{name}"))?;
        let pod = object.spec.and_then(|spec| spec.template.spec);
        Ok(Workload::new(self, namespace, name, pod.context("it has no pod template")?))
    }
}

impl<'a> Workload<'a> {
    fn new(cluster: &'a Cluster, namespace: &str, name: &str, pod: PodSpec) -> Self {
        let account = pod.service_account_name.clone().unwrap_or_else(|| "default".into());
        let fields = [
            ("metadata.name", format!("{name}-0")),
            ("metadata.namespace", namespace.to_owned()),
            ("spec.serviceAccountName", account),
            ("status.podIP", "127.0.0.1".to_owned()),
            ("status.hostIP", "127.0.0.1".to_owned()),
        ];
        Self {
            cluster,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            pod,
            fields: fields.map(|(path, value)| (path.to_owned(), value)).into(),
            variables: BTreeMap::new(),
            arguments: Vec::new(),
            left_out: BTreeSet::new(),
            server: None,
        }
    }

    /// Sets a field of the pod for variables with a `fieldRef`.
    ///
    /// `metadata.name` (`WORKLOAD-0`), `metadata.namespace` and `spec.serviceAccountName` are preset.
    #[must_use]
    pub fn field(mut self, path: &str, value: &str) -> Self {
        self.fields.insert(path.to_owned(), value.to_owned());
        self
    }

    /// Sets or overrides a variable.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl Into<String>) -> Self {
        self.variables.insert(name.to_owned(), value.into());
        self
    }

    /// Appends an argument, or replaces that of the same flag.
    #[must_use]
    pub fn arg(mut self, argument: impl Into<String>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// Removes an argument by its flag.
    #[must_use]
    pub fn without(mut self, flag: &'static str) -> Self {
        self.left_out.insert(flag);
        self
    }

    /// Sets the URL of the API server, `https://127.0.0.1:PORT`.
    #[must_use]
    pub fn server(mut self, address: &str) -> Self {
        self.server = Some(address.to_owned());
        self
    }

    /// Starts `program` as this workload's container, with a new token of its `ServiceAccount`.
    ///
    /// It does not wait: see [`Process::wait_ready`].
    pub async fn start(&self, program: &Path) -> Result<Process> {
        let [container] = self.pod.containers.as_slice() else {
            bail!("{} has {} containers, and only one can be run", self.name, self.pod.containers.len())
        };
        let mut launch = launch(container, &self.fields, ports::free_one)
            .with_context(|| format!("cannot run {}/{} as a process", self.namespace, self.name))?;
        launch.environment.insert("KUBECONFIG".into(), self.credentials().await?);
        launch.environment.extend(self.variables.clone());
        launch.arguments.retain(|argument| !self.left_out.contains(flag(argument)));
        for argument in &self.arguments {
            launch.arguments.retain(|before| flag(before) != flag(argument));
        }
        launch.arguments.extend(self.arguments.clone());
        self.cluster.run(&self.name, program, launch)
    }

    /// The process's node, if any: as in a pod, the token is bound to it.
    async fn node(&self) -> Result<Option<BoundObjectReference>> {
        let Some(name) = self.fields.get("spec.nodeName") else { return Ok(None) };
        let nodes = Api::<Node>::all(self.cluster.client().await?);
        let found = nodes.get_opt(name).await.with_context(|| format!("cannot read Node {name}"))?;
        Ok(found.map(|node| BoundObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Node".to_owned()),
            name: Some(name.clone()),
            uid: node.metadata.uid,
        }))
    }

    /// Writes a kubeconfig with a token of the `ServiceAccount` and returns its path.
    async fn credentials(&self) -> Result<String> {
        ensure!(
            self.pod.automount_service_account_token != Some(false),
            "{}/{} asks for no token (automountServiceAccountToken: false), so it could not reach the API server",
            self.namespace,
            self.name
        );
        let account = self.pod.service_account_name.as_deref().unwrap_or("default");
        let accounts = Api::<ServiceAccount>::namespaced(self.cluster.client().await?, &self.namespace);
        let spec = TokenRequestSpec {
            bound_object_ref: self.node().await?,
            expiration_seconds: Some(TOKEN_SECONDS),
            ..TokenRequestSpec::default()
        };
        let request = TokenRequest { spec: Some(spec), ..TokenRequest::default() };
        let answer = accounts.create_token_request(account, &PostParams::default(), &request).await;
        let answer =
            answer.with_context(|| format!("no token for ServiceAccount {}/{account}", self.namespace))?;
        let token = answer.status.and_then(|status| status.token).context("the API server made no token")?;
        let plane = self.cluster.plane();
        let folder = plane.state.join("run");
        fs::create_dir_all(&folder).with_context(|| format!("cannot write to {}", folder.display()))?;
        let path = folder.join(format!("{}-{}.kubeconfig", self.name, self.cluster.number()));
        let credentials = Credentials::Token(&token);
        let server = self.server.clone().unwrap_or_else(|| plane.server());
        kubeconfig::write(&path, &server, &plane.authority(), credentials, &self.namespace)?;
        path.into_os_string().into_string().ok().context("the state folder's path is not UTF-8")
    }
}

/// The process for `container`, with a port from `free` for each of its ports.
fn launch(
    container: &Container,
    fields: &BTreeMap<String, String>,
    mut free: impl FnMut() -> Result<u16>,
) -> Result<Launch> {
    ensure!(container.env_from.iter().flatten().next().is_none(), "envFrom is not supported here");
    let mut ports = BTreeMap::new();
    for declared in declared_ports(container)? {
        ports.insert(declared, free()?);
    }
    let mut environment = BTreeMap::new();
    for variable in container.env.iter().flatten() {
        let value = match (&variable.value, &variable.value_from) {
            (value, None) => expand(value.as_deref().unwrap_or_default(), &environment),
            (_, Some(source)) => {
                let path = source.field_ref.as_ref().map(|field| &field.field_path).with_context(|| {
                    format!("variable {}: only fieldRef is supported here", variable.name)
                })?;
                fields.get(path).cloned().with_context(|| {
                    format!("variable {}: {path} is unknown; call .field({path:?}, …)", variable.name)
                })?
            }
        };
        environment.insert(variable.name.clone(), local(&value, &ports));
    }
    // the first word of `command` is the program, which the caller provides
    let command = container.command.iter().flatten().skip(1);
    let arguments = command.chain(container.args.iter().flatten());
    let arguments = arguments.map(|argument| match argument.split_once('=') {
        Some((flag, value)) if flag.starts_with('-') => {
            format!("{flag}={}", local(&expand(value, &environment), &ports))
        }
        _ => local(&expand(argument, &environment), &ports),
    });
    let arguments = arguments.collect();
    let readiness =
        container.readiness_probe.as_ref().map(|probe| target(container, probe)).transpose()?.flatten();
    let readiness = readiness.map(|(port, path)| (ports[&port], path));
    Ok(Launch { arguments, environment, ports, readiness })
}

/// The flag of an argument `--flag=value`; otherwise the argument itself.
fn flag(argument: &str) -> &str {
    argument.split_once('=').map_or(argument, |(flag, _)| flag)
}

/// The declared and probed ports of the container.
fn declared_ports(container: &Container) -> Result<Vec<u16>> {
    let mut found = Vec::new();
    for port in container.ports.iter().flatten() {
        found.push(number(port.container_port)?);
    }
    let probes = [&container.readiness_probe, &container.liveness_probe, &container.startup_probe];
    for probe in probes.into_iter().flatten() {
        found.extend(target(container, probe)?.map(|(port, _)| port));
    }
    found.sort_unstable();
    found.dedup();
    Ok(found)
}

/// The port and the path of an HTTP probe.
fn target(container: &Container, probe: &Probe) -> Result<Option<(u16, String)>> {
    let Some(get) = &probe.http_get else { return Ok(None) };
    let port = match &get.port {
        IntOrString::Int(port) => *port,
        IntOrString::String(name) => {
            let mut ports = container.ports.iter().flatten();
            let port = ports.find(|port| port.name.as_ref() == Some(name));
            port.with_context(|| format!("a probe uses port {name:?}, which is not declared"))?.container_port
        }
    };
    Ok(Some((number(port)?, get.path.clone().unwrap_or_else(|| "/".into()))))
}

fn number(port: i32) -> Result<u16> {
    u16::try_from(port).with_context(|| format!("{port} is no port"))
}

/// Replaces `$(NAME)` by the variable's value, as Kubernetes does: unknown names stay, `$$` is a dollar sign.
fn expand(text: &str, variables: &BTreeMap<String, String>) -> String {
    let mut rest = text;
    let mut out = String::new();
    while let Some((before, after)) = rest.split_once('$') {
        out += before;
        let name = after.strip_prefix('(').and_then(|after| after.split_once(')'));
        rest = match (name, after.strip_prefix('$')) {
            (_, Some(after)) => {
                out.push('$');
                after
            }
            (Some((name, after)), None) if variables.contains_key(name) => {
                out += &variables[name];
                after
            }
            _ => {
                out.push('$');
                after
            }
        };
    }
    out + rest
}

/// The value with a declared port replaced by its local one, and its address by loopback.
fn local(value: &str, ports: &BTreeMap<u16, u16>) -> String {
    let local = |port: &str| port.parse().ok().and_then(|port: u16| ports.get(&port));
    match value.rsplit_once(':') {
        Some(("" | "0.0.0.0" | "[::]" | "127.0.0.1" | "localhost", port)) if local(port).is_some() => {
            format!("127.0.0.1:{}", local(port).expect("just seen"))
        }
        _ => local(value).map_or_else(|| value.to_owned(), ToString::to_string),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Container;
    use serde_json::{Value, json};

    use super::{Launch, flag, launch};

    fn render(container: Value) -> Result<Launch, String> {
        let container: Container = serde_json::from_value(container).unwrap();
        let fields = [("metadata.namespace".to_owned(), "cairn-system".to_owned())].into();
        let mut next = 30_000;
        let free = || {
            next += 1;
            Ok(next)
        };
        launch(&container, &fields, free).map_err(|error| format!("{error:#}"))
    }

    #[test]
    fn a_container_becomes_a_process() {
        let launch = render(json!({
            "name": "operator",
            "command": ["/cairn-operator"],
            "args": ["run", "--listen=0.0.0.0:8080", "--namespace=$(POD_NAMESPACE)", "--price=$$(5)", "--workers=9"],
            "env": [
                {"name": "POD_NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}},
                {"name": "LEASE", "value": "$(POD_NAMESPACE)/cairn $(UNKNOWN)"},
                {"name": "METRICS_PORT", "value": "9090"},
            ],
            "ports": [{"name": "http", "containerPort": 8080}, {"containerPort": 9090}],
            "readinessProbe": {"httpGet": {"path": "/readyz", "port": "http"}},
            "livenessProbe": {"httpGet": {"path": "/healthz", "port": 8081}},
        }))
        .unwrap();
        assert_eq!(
            launch.arguments,
            ["run", "--listen=127.0.0.1:30001", "--namespace=cairn-system", "--price=$(5)", "--workers=9"]
        );
        let environment: Vec<_> =
            launch.environment.iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(
            environment,
            ["LEASE=cairn-system/cairn $(UNKNOWN)", "METRICS_PORT=30003", "POD_NAMESPACE=cairn-system"]
        );
        assert_eq!(launch.readiness, Some((30_001, "/readyz".into())));
        assert_eq!(launch.ports[&8081], 30_002);
    }

    #[test]
    fn arguments_are_replaced_by_flag() {
        assert_eq!(["--listen=a:1", "--perf", "run"].map(flag), ["--listen", "--perf", "run"]);
    }

    #[test]
    fn unsupported_fields_are_named_in_the_error() {
        let variable = |source: Value| json!({"name": "c", "env": [{"name": "V", "valueFrom": source}]});
        let node = render(variable(json!({"fieldRef": {"fieldPath": "spec.nodeName"}})));
        assert_eq!(
            node.unwrap_err(),
            r#"variable V: spec.nodeName is unknown; call .field("spec.nodeName", …)"#
        );
        let secret = render(variable(json!({"secretKeyRef": {"name": "s", "key": "k"}})));
        assert_eq!(secret.unwrap_err(), "variable V: only fieldRef is supported here");
        let from = render(json!({"name": "c", "envFrom": [{"configMapRef": {"name": "m"}}]}));
        assert_eq!(from.unwrap_err(), "envFrom is not supported here");
        let probe = render(json!({"name": "c", "readinessProbe": {"httpGet": {"port": "web"}}}));
        assert_eq!(probe.unwrap_err(), r#"a probe uses port "web", which is not declared"#);
    }
}
