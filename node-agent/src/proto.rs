//! Compares manually written messages with their `.proto`.

/// Panics unless `source` has at least `min` fields, and each is in `proto` with its type and tag.
pub fn assert_fields(source: &str, proto: &str, min: usize) {
    let (proto, ours) = (of_proto(proto), of_structs(source));
    assert!(ours.len() >= min, "{ours:?}");
    let unknown: Vec<_> = ours.iter().filter(|field| !proto.contains(field)).collect();
    assert!(unknown.is_empty(), "{unknown:?} are not in {proto:?}");
}

/// A field as `message.field`, and its type and tag, without differences of notation.
fn field(message: &str, name: &str, type_: &str, tag: &str) -> (String, String) {
    (format!("{message}.{name}").replace('_', "").to_lowercase(), format!("{type_} {tag}").to_lowercase())
}

/// The fields of a `.proto`.
fn of_proto(text: &str) -> Vec<(String, String)> {
    let mut fields = Vec::new();
    let mut message = "";
    for line in text.lines().map(str::trim).filter(|line| !line.starts_with("//")) {
        if let Some(name) = line.strip_prefix("message ") {
            message = name.split_whitespace().next().unwrap();
        } else if let Some((declared, tag)) = line.trim_end_matches(';').split_once(" = ") {
            let Some((type_, name)) = declared.rsplit_once(' ') else { continue };
            fields.push(field(message, name, type_, tag));
        }
    }
    fields
}

/// The fields of the structures of a file, up to its tests.
fn of_structs(text: &str) -> Vec<(String, String)> {
    let mut fields = Vec::new();
    let (mut message, mut attribute) = ("", "");
    for line in text.lines().map(str::trim).take_while(|line| *line != "#[cfg(test)]") {
        if let Some(name) = line.strip_prefix("pub struct ") {
            message = name.split([' ', '{']).next().unwrap();
        } else if let Some(prost) = line.strip_prefix("#[prost(") {
            attribute = prost.trim_end_matches(")]");
        } else if let Some((name, type_)) = line.strip_prefix("pub ").and_then(|line| line.split_once(": "))
            && !name.contains(' ')
        {
            let (kind, tag) = attribute.rsplit_once(", tag = ").unwrap();
            let tag = tag.trim_matches('"');
            let inner = type_.trim_end_matches(',').trim_end_matches('>').rsplit('<').next().unwrap();
            let parts: Vec<_> = kind.split(", ").collect();
            let base = match (kind.strip_prefix("map = "), parts[0]) {
                (Some(of), _) => format!("map<{}>", of.trim_matches('"')),
                (None, "message") => inner.to_owned(),
                (None, scalar) => scalar.to_owned(),
            };
            let repeated = if parts.contains(&"repeated") { "repeated " } else { "" };
            fields.push(field(message, name, &format!("{repeated}{base}"), tag));
        }
    }
    fields
}
