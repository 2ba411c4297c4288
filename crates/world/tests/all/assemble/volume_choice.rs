//! Which volume a claim gets, and why none fits.

use super::cluster::world_of;
use super::pods::{pod, shown_reasons};
use super::volumes::{WAITS, beside, claim, class, local, rules, spec, volume};

/// A volume of this size that a node can use, with a label.
fn sized(name: &str, node: &str, size: &str, label: &str) -> String {
    volume(name, node, "")
        .replace("10Gi", size)
        .replace(&format!("name: {name}"), &format!("name: {name}, labels: {{k: {label}}}"))
}

fn asks(size: &str, more: &str) -> String {
    format!("storageClassName: local, resources: {{requests: {{storage: {size}}}}}{more}")
}

const SELECTS_V: &str = ", selector: {matchLabels: {k: v}}";

/// The smaller claim takes the smallest volume, even if only that one satisfies the other claim.
#[test]
fn claims_of_a_pod_are_served_by_size() {
    let documents = [
        local(),
        claim("a", &asks("512Mi", "")),
        claim("b", &asks("1Gi", SELECTS_V)),
        sized("p1", "n1", "1Gi", "v"),
        sized("p2", "n1", "2Gi", "w"),
        sized("q1", "n2", "1Gi", "w"),
        sized("q2", "n2", "2Gi", "v"),
    ];
    let found = rules(&[("a", 1, spec(&["b", "a"], &[]))], &documents);
    assert_eq!(found, "never a-0 n0\nnever a-0 n0\nnever a-0 n1");
}

#[test]
fn volumes_that_depend_on_the_order_of_pods_are_named() {
    let (a, b) = (spec(&["a"], &[]), spec(&["b"], &[]));
    let both = || vec![("a", 1, a.clone()), ("b", 1, b.clone())];
    let (small, large) = (sized("p1", "n1", "1Gi", "v"), sized("p2", "n1", "2Gi", "w"));
    let selects = asks("1Gi", SELECTS_V);
    for (groups, asked, volumes, expected) in [
        (
            both(),
            &selects,
            vec![small.clone(), large.clone()],
            "a: which volume claim a gets; b: which volume claim b gets",
        ),
        // only the large volume satisfies b, and a takes the small one
        (both(), &asks("2Gi", ""), vec![small.clone(), large.clone()], ""),
        (both(), &selects, vec![small.clone(), sized("p2", "n2", "2Gi", "w")], ""),
        (vec![("a", 1, spec(&["a", "b"], &[]))], &selects, vec![small.clone(), large.clone()], ""),
        (
            vec![("b", 1, b.clone())],
            &selects,
            vec![small.clone(), large.clone(), pod("n1", "x", &a)],
            "b: which volume claim b gets",
        ),
        // where it is provisioned, the claim can be used
        (vec![("a", 1, spec(&["c"], &[]))], &selects, vec![], ""),
        (
            vec![("a", 2, spec(&["c"], &[]))],
            &selects,
            vec![],
            "a: where the volume of claim c is provisioned",
        ),
        (
            vec![("a", 1, spec(&["c"], &[])), ("b", 1, spec(&["c"], &[]))],
            &selects,
            vec![],
            "a: where the volume of claim c is provisioned; b: where the volume of claim c is provisioned",
        ),
    ] {
        let fast = [class("fast", "d", WAITS), claim("c", "storageClassName: fast")];
        let claims = [local(), claim("a", &asks("1Gi", "")), claim("b", asked)];
        let documents: Vec<String> = fast.into_iter().chain(claims).chain(volumes).collect();
        let world = world_of(&beside(&groups, &documents)).unwrap();
        assert_eq!(world.snapshot.file().left_to_scheduler.join("; "), expected, "{groups:?} {documents:?}");
    }
}

#[test]
fn the_reason_says_why_no_volume_fits() {
    let (none, more) = (
        "no volume of StorageClass local fits claim data",
        "accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}",
    );
    let with_modes = |more: &str| volume("v1", "n1", &format!("accessModes: [ReadWriteOnce]{more}"));
    let small = volume("v2", "n1", "accessModes: [ReadWriteOnce]").replace("10Gi", "1Mi");
    let of_another = ", claimRef: {namespace: away, name: other}";
    for (volumes, expected) in [
        (vec![], "StorageClass local has no volume for claim data; create one".to_owned()),
        (
            vec![with_modes("")],
            "no volume of StorageClass local that fits claim data is available there".to_owned(),
        ),
        (vec![volume("v1", "n1", "")], format!("{none}: wrong access modes")),
        (vec![with_modes(of_another)], format!("{none}: bound to other claims")),
        (
            vec![with_modes("").replace("spec:", "status: {phase: Released}, spec:"), small],
            format!("{none}: not Available, too small"),
        ),
    ] {
        let asked = claim("data", &format!("storageClassName: local, {more}"));
        let documents: Vec<String> = [local(), asked].into_iter().chain(volumes).collect();
        let found = shown_reasons(&beside(&[("a", 1, spec(&["data"], &[]))], &documents));
        assert_eq!(found, expected, "{documents:?}");
    }
}
