//! Limits of nodes on volumes, by driver and handle.

use super::pods::pod;
use super::volumes::{CONTAINER, WAITS, claim, class, rules, spec, volume};

#[test]
fn limits_count_volumes_by_driver_and_handle() {
    let limit = |driver: &str, count: u32| {
        format!(
            "{{apiVersion: storage.k8s.io/v1, kind: CSINode, metadata: {{name: n1}}, spec: {{drivers: [{{name: {driver}, \
             nodeID: n1, allocatable: {{count: {count}}}}}]}}}}"
        )
    };
    let (ebs, pd) = ("ebs.csi.aws.com", "pd.csi.storage.gke.io");
    let disk =
        |id: &str| format!("volumes: [{{name: v, awsElasticBlockStore: {{volumeID: {id}}}}}], {CONTAINER}");
    let bound = |name: &str, source: &str| {
        [claim(name, &format!("volumeName: pv-{name}")), volume(&format!("pv-{name}"), "", source)]
    };
    let csi = |handle: &str| format!("csi: {{driver: {ebs}, volumeHandle: {handle}}}");
    let gp2 = [class("gp2", "kubernetes.io/aws-ebs", WAITS), claim("x", "storageClassName: gp2")];
    let (x, z) = (|| spec(&["x"], &[]), pod("n1", "x", &spec(&["z"], &[])));
    let off_n1 = "never a-0 n1";
    for (template, documents, expected) in [
        (x(), [gp2.to_vec(), vec![limit(ebs, 0)]].concat(), off_n1),
        (x(), [gp2.to_vec(), vec![limit(ebs, 1)]].concat(), ""),
        (x(), [gp2.to_vec(), vec![limit(pd, 0)]].concat(), ""),
        (x(), [gp2.to_vec(), vec![limit(ebs, 1), pod("n1", "x", &disk("vol-1"))]].concat(), off_n1),
        (
            spec(&[], &["storageClassName: gp2"]),
            [gp2.to_vec(), vec![limit(ebs, 1), pod("n1", "x", &disk("vol-1"))]].concat(),
            off_n1,
        ),
        (disk("vol-1"), vec![limit(ebs, 0)], off_n1),
        // a volume of Kubernetes itself
        (
            x(),
            [
                gp2.to_vec(),
                vec![limit(ebs, 1), z.clone()],
                bound("z", "awsElasticBlockStore: {volumeID: 'aws://a/vol-1'}").to_vec(),
            ]
            .concat(),
            off_n1,
        ),
        // one volume, whatever the claims
        (
            x(),
            [
                vec![limit(ebs, 1), z.clone()],
                bound("x", &csi("vol-1")).to_vec(),
                bound("z", &csi("vol-1")).to_vec(),
            ]
            .concat(),
            "",
        ),
        (
            x(),
            [
                vec![limit(ebs, 1), z.clone()],
                bound("x", &csi("vol-1")).to_vec(),
                bound("z", &csi("vol-2")).to_vec(),
            ]
            .concat(),
            off_n1,
        ),
        (disk("'aws://a/vol-1'"), [vec![limit(ebs, 1), z], bound("z", &csi("vol-1")).to_vec()].concat(), ""),
    ] {
        assert_eq!(rules(&[("a", 1, template.clone())], &documents), expected, "{template} {documents:?}");
    }
}
