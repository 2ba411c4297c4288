//! Functions of CEL whose results differ from those of Kubernetes, or that are missing.

use std::collections::HashMap;
use std::sync::Arc;

use kube_cel::cel::extractors::{Arguments, This};
use kube_cel::cel::objects::{Opaque, OptionalValue};
use kube_cel::cel::{Context, ExecutionError, FunctionContext, IdedExpr, ResolveResult, Value};

// No expression can name these: `@` is not part of an identifier.
/// A domain of attributes or capacities; unknown ones are empty.
pub(crate) const DOMAIN: &str = "@domain";
/// Equality, also of numbers of different types.
pub(crate) const EQUAL: &str = "@equal";
/// Inequality.
pub(crate) const UNEQUAL: &str = "@unequal";
/// Whether a list contains a value, or a map a key.
pub(crate) const WITHIN: &str = "@within";
/// One more element of `exists`: errors count if no element holds.
pub(crate) const OR: &str = "@or";
/// One more element of `all`: errors count if every other element holds.
pub(crate) const AND: &str = "@and";
/// The result of `exists` or `all`.
pub(crate) const SETTLED: &str = "@settled";
/// A version without its build metadata, which equality and order ignore.
pub(crate) const RELEASE: &str = "@release";
/// A truth value, a number or a duration as Go writes it.
pub(crate) const TEXT: &str = "@text";
/// A regular expression with the ASCII classes of RE2.
pub(crate) const PATTERN: &str = "@pattern";
/// An optional value as a list: the evaluator unwraps optional values of variables.
pub(crate) const HELD: &str = "@held";
/// An offset in a text: negative ones are errors.
pub(crate) const OFFSET: &str = "@offset";

/// Types that an expression may name.
const TYPES: [&str; 10] =
    ["bool", "bytes", "double", "int", "list", "map", "null_type", "optional_type", "string", "uint"];

/// Adds the functions, replacing those of the same name.
pub(crate) fn add_functions(context: &mut Context<'_>) {
    // Nothing is checked by type before it is evaluated.
    context.add_function("dyn", |value: Value| -> ResolveResult { Ok(value) });
    context.add_function(DOMAIN, domain);
    context.add_function(EQUAL, equal);
    context.add_function(UNEQUAL, unequal);
    context.add_function(WITHIN, within);
    context.add_function(OR, or);
    context.add_function(AND, and);
    context.add_function(SETTLED, settled);
    context.add_function(RELEASE, |This(text): This<Arc<String>>| -> ResolveResult {
        Ok(Value::from(release(&text)))
    });
    context.add_function(TEXT, |value: Value| -> ResolveResult { Ok(text_of(value)) });
    context
        .add_function(PATTERN, |text: Arc<String>| -> ResolveResult { Ok(Value::from(rust_pattern(&text))) });
    context.add_function(OFFSET, |at: i64| -> ResolveResult {
        if at < 0 { Err(failed("indexOf", "index out of range")) } else { Ok(Value::Int(at)) }
    });
    context.add_function(HELD, held);
    context.add_function("size", size);
    context.add_function("split", split);
    context.add_function("replace", replace);
    context.add_function("reverse", |This(list): This<Arc<Vec<Value>>>| -> ResolveResult {
        Ok(Value::List(Arc::new(list.iter().rev().cloned().collect())))
    });
    context.add_function("bool", truth);
    context.add_function("type", |value: Value| -> ResolveResult { Ok(type_value(type_name(&value))) });
    for name in TYPES {
        context.add_variable_from_value(name, type_value(name.to_owned()));
    }
}

fn failed(function: &str, why: &str) -> ExecutionError {
    ExecutionError::function_error(function, why)
}

fn expressions<'a>(of: &FunctionContext<'_, 'a>) -> Result<[&'a IdedExpr; 2], ExecutionError> {
    let [one, other] = of.args else { return Err(ExecutionError::NoSuchOverload) };
    Ok([one, other])
}

fn both(of: &FunctionContext) -> Result<(Value, Value), ExecutionError> {
    let [one, other] = expressions(of)?;
    Ok((of.ptx.resolve(one)?, of.ptx.resolve(other)?))
}

fn equal(of: &FunctionContext) -> ResolveResult {
    let (one, other) = both(of)?;
    Ok(Value::Bool(one == other))
}

fn unequal(of: &FunctionContext) -> ResolveResult {
    let (one, other) = both(of)?;
    Ok(Value::Bool(one != other))
}

fn domain(of: &FunctionContext) -> ResolveResult {
    let [domains, name] = expressions(of)?;
    // Only the domain is copied, not all of them.
    let domains = Value::resolve_val(domains, of.ptx)?;
    let name = Value::resolve_val(name, of.ptx)?;
    if !matches!(Value::try_from(name.as_ref())?, Value::String(_)) {
        return Err(ExecutionError::NoSuchOverload);
    }
    let known = domains.as_indexer().ok_or(ExecutionError::NoSuchOverload)?.get(name.as_ref());
    known.map_or_else(
        |_| Ok(Value::from(HashMap::<&str, Value>::new())),
        |known| Value::try_from(known.as_ref()),
    )
}

fn within(of: &FunctionContext) -> ResolveResult {
    let (value, container) = both(of)?;
    match container {
        Value::List(list) => Ok(Value::Bool(list.contains(&value))),
        Value::Map(map) => Ok(Value::Bool(map.map.keys().any(|key| Value::from(key) == value))),
        _ => Err(ExecutionError::NoSuchOverload),
    }
}

/// An error that counts unless another element decides.
#[derive(Debug, PartialEq)]
struct Deferred(ExecutionError);

impl Eq for Deferred {}

impl Opaque for Deferred {
    fn runtime_type_name(&self) -> &'static str {
        "cairn.dev/error"
    }
}

fn or(of: &FunctionContext) -> ResolveResult {
    absorb(of, true)
}

fn and(of: &FunctionContext) -> ResolveResult {
    absorb(of, false)
}

/// Adds an element to `exists`, which a true one decides, or to `all`, which a false one decides.
fn absorb(of: &FunctionContext, decides: bool) -> ResolveResult {
    let [before, element] = expressions(of)?;
    let before = of.ptx.resolve(before)?;
    let error = match of.ptx.resolve(element) {
        Ok(Value::Bool(holds)) if holds == decides => return Ok(Value::Bool(holds)),
        Ok(Value::Bool(_)) => return Ok(before),
        Ok(_) => ExecutionError::NoSuchOverload,
        Err(error) => error,
    };
    Ok(if matches!(before, Value::Opaque(_)) { before } else { Value::Opaque(Arc::new(Deferred(error))) })
}

fn held(This(value): This<Value>) -> ResolveResult {
    let optional: &OptionalValue = (&value).try_into()?;
    Ok(Value::from(optional.value().into_iter().cloned().collect::<Vec<Value>>()))
}

fn settled(result: Value) -> ResolveResult {
    if let Value::Opaque(opaque) = &result
        && let Some(Deferred(error)) = opaque.downcast_ref()
    {
        return Err(error.clone());
    }
    Ok(result)
}

/// The version without build metadata; a text that is no version stays as it is.
pub(crate) fn release(version: &str) -> &str {
    let is_identifier =
        |it: &str| !it.is_empty() && it.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    match version.split_once('+') {
        Some((release, build)) if build.split('.').all(is_identifier) => release,
        _ => version,
    }
}

fn text_of(value: Value) -> Value {
    match value {
        Value::Bool(it) => Value::from(it.to_string()),
        Value::Float(it) => Value::from(shortest(it)),
        #[allow(clippy::cast_precision_loss)] // as in Go
        Value::Duration(it) => match it.num_nanoseconds() {
            Some(nanoseconds) => Value::from(format!("{}s", nanoseconds as f64 / 1e9)),
            None => Value::Duration(it),
        },
        other => other,
    }
}

/// `%g` of Go.
fn shortest(number: f64) -> String {
    if !number.is_finite() {
        return if number.is_nan() {
            "NaN"
        } else if number > 0.0 {
            "+Inf"
        } else {
            "-Inf"
        }
        .to_owned();
    }
    let scientific = format!("{number:e}");
    let Some((digits, exponent)) = scientific.split_once('e') else { return scientific };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..6).contains(&exponent) {
        return number.to_string();
    }
    format!("{digits}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs())
}

/// RE2 knows ASCII only in classes such as `\d`, and quotes with `\Q`.
fn rust_pattern(pattern: &str) -> String {
    let mut written = String::with_capacity(pattern.len());
    let mut rest = pattern;
    while let Some((before, escaped)) = rest.split_once('\\') {
        written.push_str(before);
        let mut characters = escaped.chars();
        let class = characters.next();
        rest = characters.as_str();
        match class {
            Some('d') => written.push_str("[0-9]"),
            Some('D') => written.push_str("[^0-9]"),
            Some('w') => written.push_str("[0-9A-Za-z_]"),
            Some('W') => written.push_str("[^0-9A-Za-z_]"),
            Some('s') => written.push_str(r"[\t\n\f\r ]"),
            Some('S') => written.push_str(r"[^\t\n\f\r ]"),
            Some('b') => written.push_str(r"(?-u:\b)"),
            Some('Q') => {
                let (quoted, after) = rest.split_once(r"\E").unwrap_or((rest, ""));
                for character in quoted.chars() {
                    if character.is_ascii_punctuation() {
                        written.push('\\');
                    }
                    written.push(character);
                }
                rest = after;
            }
            other => {
                written.push('\\');
                written.extend(other);
            }
        }
    }
    written + rest
}

fn size(This(of): This<Value>) -> ResolveResult {
    let size = match &of {
        Value::String(text) => text.chars().count(),
        Value::Bytes(bytes) => bytes.len(),
        Value::List(list) => list.len(),
        Value::Map(map) => map.map.len(),
        _ => return Err(ExecutionError::NoSuchOverload),
    };
    Ok(Value::Int(i64::try_from(size).unwrap_or(i64::MAX)))
}

/// How many times at most; absent if the number is negative or missing.
fn limit(number: Option<&Value>) -> Result<Option<usize>, ExecutionError> {
    match number {
        None => Ok(None),
        Some(Value::Int(number)) => Ok(usize::try_from(*number).ok()),
        Some(_) => Err(ExecutionError::NoSuchOverload),
    }
}

fn split(This(text): This<Arc<String>>, Arguments(of): Arguments) -> ResolveResult {
    let [Value::String(separator), number @ ..] = &of[..] else {
        return Err(ExecutionError::NoSuchOverload);
    };
    let most = limit(number.first())?.unwrap_or(usize::MAX);
    if most == 0 {
        return Ok(Value::List(Arc::default()));
    }
    if !separator.is_empty() {
        return Ok(Value::from(text.splitn(most, separator.as_str()).collect::<Vec<&str>>()));
    }
    let mut parts = Vec::new();
    let mut rest = text.as_str();
    while let Some(first) = rest.chars().next() {
        let (part, after) =
            if parts.len() + 1 == most { (rest, "") } else { rest.split_at(first.len_utf8()) };
        parts.push(part);
        rest = after;
    }
    Ok(Value::from(parts))
}

fn replace(This(text): This<Arc<String>>, Arguments(of): Arguments) -> ResolveResult {
    let [Value::String(old), Value::String(new), number @ ..] = &of[..] else {
        return Err(ExecutionError::NoSuchOverload);
    };
    let most = limit(number.first())?.unwrap_or(usize::MAX);
    Ok(Value::from(text.replacen(old.as_str(), new, most)))
}

fn truth(value: Value) -> ResolveResult {
    match &value {
        Value::Bool(_) => Ok(value),
        Value::String(text) => match text.as_str() {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(Value::Bool(true)),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(Value::Bool(false)),
            _ => Err(failed("bool", "the string is not a boolean")),
        },
        _ => Err(ExecutionError::NoSuchOverload),
    }
}

/// A type as a value.
#[derive(Debug, PartialEq, Eq)]
struct TypeName(String);

impl Opaque for TypeName {
    fn runtime_type_name(&self) -> &'static str {
        "type"
    }
}

fn type_value(name: String) -> Value {
    Value::Opaque(Arc::new(TypeName(name)))
}

fn type_name(value: &Value) -> String {
    match value {
        Value::Float(_) => "double".to_owned(),
        Value::Null => "null_type".to_owned(),
        Value::Opaque(opaque) if opaque.downcast_ref::<OptionalValue>().is_some() => {
            "optional_type".to_owned()
        }
        Value::Opaque(opaque) => opaque.runtime_type_name().to_owned(),
        other => other.type_of().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use crate::units::dra::published::published_pool;
    use crate::units::dra::selectors::{DeviceSelector, functions};

    const SLICE: &str = "{metadata: {name: s}, spec: {driver: d.com, nodeName: n, pool: {name: n, generation: 1, \
        resourceSliceCount: 1}, devices: [{name: a, attributes: {model: {string: A é}, index: {int: 3}, \
        release: {version: 1.2.3-rc.1+b5}, e.com/x: {int: 1}}, capacity: {memory: {value: 40Gi}}}]}}";

    /// `A` is the attributes of the driver, `C` its capacities.
    fn expanded(text: &str) -> String {
        text.replace("A.", "device.attributes['d.com'].").replace("C.", "device.capacity['d.com'].")
    }

    /// Values as cel-go 0.26 and apiserver 0.36 give them; `None` is an error.
    #[test]
    fn selectors_agree_with_kubernetes() {
        let pool = published_pool(&[serde_yaml::from_str(SLICE).unwrap()]);
        for (text, expected) in [
            // Only published domains exist, but each can be indexed.
            ("'f.com' in device.attributes", Some(false)),
            ("'e.com' in device.attributes && 'd.com' in device.capacity", Some(true)),
            ("device.attributes.size() == 2 && size(device.capacity) == 1 && 'x' != 'y'", Some(true)),
            ("device.attributes.exists(d, d == 'f.com')", Some(false)),
            ("['d.com', 'f.com'].exists(d, !(d in device.attributes))", Some(true)),
            ("has(device.attributes['f.com'].x) || device.attributes['f.' + 'com'].size() > 0", Some(false)),
            ("'x' in device.capacity['f.com']", Some(false)),
            ("cel.bind(all, device.attributes, has(all['f.com'].x))", Some(false)),
            ("['f.com'].exists(d, has(device.attributes[d].x))", Some(false)),
            ("device.attributes[?'f.com'].?x.orValue(7) == 7", Some(true)),
            ("has(device.attributes['f\\x2ecom'].x) || A.model == 'it\\'s'", Some(false)),
            ("[{'k': 1}].exists(device, device['f.com'] == 1)", None),
            ("device.attributes['f.com'].x == 1", None),
            // Numbers of different types are equal if their values are.
            ("A.index == 3.0 && 3u == A.index && !(A.index != 3.0)", Some(true)),
            ("A.index in [3.0] && A.index in {3: 'a'} && !('3' in ['4'])", Some(true)),
            ("[1.0, 3.0].exists(x, x == A.index) && dyn(1) == 1.0", Some(true)),
            ("optional.of(1) == optional.of(1) && [1] == [1]", Some(true)),
            ("A.model == 3 || A.index == 'x'", Some(false)),
            // Versions are compared without their build metadata.
            (
                "A.release == semver('1.2.3-rc.1+b6') && A.release.compareTo(semver('1.2.3-rc.1')) == 0",
                Some(true),
            ),
            ("semver('1.2.3+a').isLessThan(semver('1.2.3+b')) || isSemver('1.2.3+')", Some(false)),
            // One deciding element is enough, whatever the others are.
            ("[0, 1].exists(x, 1 / x == 1)", Some(true)),
            ("[1, 0].all(x, 1 / x == 2)", Some(false)),
            ("[0, 1].exists(x, 1 / x == 2)", None),
            ("[0, 1].all(x, 1 / x == 1)", None),
            ("['f.com', 'd.com'].exists(d, device.attributes[d].model.startsWith('A'))", Some(true)),
            ("[0, 1].exists_one(x, 1 / x == 1)", None),
            ("[1, 2].exists(x, x)", None),
            // Texts.
            ("A.model.size() == 3 && 'é'.size() == 1 && bytes('é').size() == 2", Some(true)),
            ("'aé'.split('') == ['a', 'é'] && 'abc'.split('', 2) == ['a', 'bc']", Some(true)),
            (
                "'a b'.split(' ', 0) == [] && 'a b'.split(' ', 1) == ['a b'] && 'a b'.split(' ', -1) == ['a', 'b']",
                Some(true),
            ),
            ("'aaa'.replace('a', 'b', -1) == 'bbb' && 'aaa'.replace('a', 'b', 1) == 'baa'", Some(true)),
            ("'abc'.indexOf('c', 1) == 2 && [1, 2].indexOf(2) == 1", Some(true)),
            ("'abc'.indexOf('a', -1) == 0", None),
            ("string(1e21) == '1e+21' && string(1e6) == '1e+06' && string(1.5) == '1.5'", Some(true)),
            ("string(true) == 'true' && string(duration('90s')) == '90s' && string(3) == '3'", Some(true)),
            ("'٣'.matches('^\\\\d$') || 'é'.matches('^[\\\\w]$')", Some(false)),
            ("'a.b'.matches('^\\\\Qa.b\\\\E$') && !'axb'.matches('\\\\Qa.b\\\\E')", Some(true)),
            ("A.model.find('\\\\W.') == ' é' && matches('x1', '\\\\d')", Some(true)),
            ("bool('true') && bool(true) && !bool('f')", Some(true)),
            ("bool('yes')", None),
            // Types and optional values.
            ("type(1) == int && type(A.model) == string && type(1.0) != int && type([]) == list", Some(true)),
            ("A.?index.optMap(i, i + 1).orValue(0) == 4 && !A.?none.optMap(i, i + 1).hasValue()", Some(true)),
            ("A.?index.optFlatMap(i, optional.of(i)).value() == 3", Some(true)),
            ("[2, 1].reverse() == [1, 2]", Some(true)),
            ("A.model.reverse() != ''", None),
            ("'%s-%d'.format(['a', 3]) == 'a-3'", Some(true)),
            ("C.memory == quantity('40Gi') && C.memory != quantity('41Gi')", Some(true)),
        ] {
            let selector = DeviceSelector::compile(&expanded(text)).unwrap();
            let evaluated = selector.selects(&pool.devices[0], &functions());
            assert_eq!(evaluated.clone().ok(), expected, "{text}: {evaluated:?}");
        }
    }

    #[test]
    fn what_the_api_server_refuses_is_invalid() {
        let mixed = |place: &str, types: &str| {
            format!("has {place} of {types}, which the API server refuses; use one type")
        };
        let foreign = |name: &str| format!("calls {name}, which the API server does not offer in claims");
        for (text, problem) in [
            ("math.greatest(1, 2) == 2", foreign("math.greatest")),
            ("base64.encode(b'a') == 'YQ=='", foreign("base64.encode")),
            ("max(1, 2) == 2", foreign("max")),
            ("[1, 2.0].size() == 2", mixed("a list", "double and int")),
            ("{'a': 1, 'b': 'c'}.size() == 2", mixed("a map", "int and string")),
            ("C.memory != 7", mixed("a comparison", "Quantity and int")),
            ("1 == 1.0", mixed("a comparison", "double and int")),
        ] {
            let text = expanded(text);
            assert_eq!(DeviceSelector::compile(&text).unwrap_err(), format!("`{text}` {problem}"));
        }
    }
}
