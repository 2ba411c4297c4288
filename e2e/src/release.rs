//! The release images of operator and node agent.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::images::Image;
use crate::keeper;
use crate::product::{AGENT, NAMESPACE, OPERATOR};

/// A non-root user without an account on the nodes.
const NOBODY: &str = "65532:65532";

/// The image of a built program: `registry/program:tag`.
pub fn image(name: &str, registry: &str, tag: &str) -> Result<Image> {
    let place = format!("/{name}");
    Image::new(&format!("{registry}/{name}:{tag}"), &place)
        .user(NOBODY)
        .program(&keeper::built(name)?, &place)
}

/// Writes the images of operator and node agent into a folder, and returns instructions.
pub fn make(folder: &Path, registry: &str, tag: &str) -> Result<String> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make the folder {}", folder.display()))?;
    let mut said = Vec::new();
    for name in [OPERATOR, AGENT] {
        let archive = folder.join(format!("{name}.tar"));
        image(name, registry, tag)?.write(&archive)?;
        said.push(archive.display().to_string());
    }
    said.push(format!(
        "\nload each:  ctr -n k8s.io images import FILE    on every node, or docker load -i FILE and push\n\
         use them:   helm install cairn charts/cairn -n {NAMESPACE} --create-namespace \\\n\
         \x20             --set operator.image.repository={registry}/{OPERATOR},operator.image.tag={tag} \\\n\
         \x20             --set agent.image.repository={registry}/{AGENT},agent.image.tag={tag}\n"
    ));
    Ok(said.join("\n"))
}
