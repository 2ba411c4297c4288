//! Disks in templates without a claim, as constraints.

use super::pods::{cluster, group, pod, shown};

fn with(disk: &str) -> String {
    format!("volumes: [{{name: v, {disk}}}], containers: [{{name: c}}]")
}

#[test]
fn pods_with_the_same_disk_do_not_share_a_node() {
    let ebs = |id: &str| with(&format!("awsElasticBlockStore: {{volumeID: {id}, readOnly: true}}"));
    let gce = |more: &str| with(&format!("gcePersistentDisk: {{pdName: d{more}}}"));
    let iscsi = |lun: u32, more: &str| with(&format!("iscsi: {{targetPortal: p, iqn: q, lun: {lun}{more}}}"));
    let rbd = |monitors: &str, image: &str| with(&format!("rbd: {{monitors: [{monitors}], image: {image}}}"));
    let read_only = ", readOnly: true";
    let (one, two) = (|spec: String| group("a", 1, &spec), |spec: String| group("a", 2, &spec));
    let beside = |spec: String| pod("n1", "x", &spec);
    let off_n1 = "never a-0 n1";
    for (groups, more, expected) in [
        (two(ebs("v")), String::new(), "apart node a-0,a-1"),
        (two(gce("")), String::new(), "apart node a-0,a-1"),
        (two(gce(read_only)), String::new(), ""),
        (
            format!("{}, {}", two(ebs("v")), group("b", 1, &ebs("v"))),
            String::new(),
            "apart node a-0,a-1\napart node a-0,a-1,b-0",
        ),
        (format!("{}, {}", one(ebs("v")), group("b", 1, &ebs("w"))), String::new(), ""),
        // readers share nodes with each other, not with the writer
        (
            format!("{}, {}", two(gce(read_only)), group("b", 1, &gce(""))),
            String::new(),
            "peers a-0,a-1 of b-0: n0+0 n1+0 n2+0; (0) None None",
        ),
        (one(ebs("v")), beside(ebs("v")), off_n1),
        (one(ebs("v")), beside(gce("")), ""),
        (one(gce(read_only)), beside(gce("")), off_n1),
        (one(gce("")), beside(gce(read_only)), off_n1),
        (one(gce(read_only)), beside(gce(read_only)), ""),
        // whatever the lun
        (one(iscsi(0, read_only)), beside(iscsi(1, "")), off_n1),
        (one(iscsi(0, read_only)), beside(iscsi(0, read_only)), ""),
        (one(rbd("x, y", "i")), beside(rbd("y, z", "i").replace("image", "pool: rbd, image")), off_n1),
        (one(rbd("x, y", "i")), beside(rbd("y, z", "i").replace("image", "pool: other, image")), ""),
        (one(rbd("x", "i")), beside(rbd("z", "i")), ""),
        (one(rbd("x", "i")), beside(rbd("x", "j")), ""),
    ] {
        assert_eq!(shown(&cluster(&groups, &more)), expected, "{groups} beside {more}");
    }
}
