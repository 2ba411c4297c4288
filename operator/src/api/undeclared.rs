//! Tolerates CRDs that are older than the operator: server-side apply rejects undeclared fields, which other writes would drop.

use kube::core::Status;
use serde_json::Value;

/// Follows the path of each undeclared field in the API server's message.
const UNDECLARED: &str = ": field not declared in schema";

/// Removes the undeclared fields named in an answer; returns whether there were any.
pub fn strip(body: &mut Value, refused: &Status) -> bool {
    let mut parts: Vec<&str> = refused.message.split(UNDECLARED).collect();
    // the text after the last one names no field
    parts.pop();
    let paths = parts.into_iter().filter_map(|part| part.rsplit(char::is_whitespace).next());
    let taken: Vec<bool> = paths.map(|path| remove(body, &segments(path))).collect();
    taken.contains(&true)
}

/// The segments of a path such as `.status.refusals[actor="a"].scope`; list indices do not matter.
fn segments(path: &str) -> Vec<String> {
    let mut depth = 0;
    let outside = |c: &char| {
        match c {
            '[' => depth += 1,
            ']' => depth -= 1,
            _ => return depth == 0,
        }
        false
    };
    let path: String = path.chars().filter(outside).collect();
    path.split('.').filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

fn remove(value: &mut Value, path: &[String]) -> bool {
    match (value, path) {
        (Value::Array(all), _) => {
            let taken: Vec<bool> = all.iter_mut().map(|one| remove(one, path)).collect();
            taken.contains(&true)
        }
        (Value::Object(fields), [name]) => fields.remove(name).is_some(),
        (Value::Object(fields), [name, rest @ ..]) => {
            fields.get_mut(name).is_some_and(|inner| remove(inner, rest))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn says(message: &str) -> Status {
        Status { message: message.to_owned(), code: 500, ..Status::default() }
    }

    #[test]
    fn undeclared_fields_are_removed() {
        let mut body = json!({"status": {"revision": {"current": "a"}, "actors": {"ready": 1, "wanted": 2},
            "refusals": [{"actor": "a-0", "scope": "Node"}, {"actor": "a-1", "scope": "Node"}]}});
        let one = "failed to create typed patch object (/old; cairn.dev/v1alpha1, Kind=ActorApplication): \
            .status.revision: field not declared in schema";
        assert!(strip(&mut body, &says(one)));
        assert!(!strip(&mut body, &says(one)), "nothing is left to be taken out");
        let several = "failed to create typed patch object (x): errors:\n  .status.actors.ready: field not declared in schema\n  \
            .status.refusals[actor=\"a-0\"].scope: field not declared in schema";
        assert!(strip(&mut body, &says(several)));
        assert_eq!(
            body,
            json!({"status": {"actors": {"wanted": 2}, "refusals": [{"actor": "a-0"}, {"actor": "a-1"}]}})
        );
        assert!(!strip(&mut body, &says("etcdserver: request timed out")));
    }
}
