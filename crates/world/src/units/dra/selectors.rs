//! CEL expressions that select devices, as kube-scheduler evaluates them.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::ScopedJoinHandle;

use kube_cel::KubeCelExt as _;
use kube_cel::cel::{Context, IdedExpr, Program, Value};

use crate::units::dra::selector_cost::check;
use crate::units::dra::selector_functions::{add_functions, release};
use crate::units::dra::selector_syntax::{parse, rewrite};
use crate::units::dra::slices::{AttributeValue, SliceDevice};

/// Maximum length of an expression in bytes, as in Kubernetes.
const MAX_LENGTH: usize = 10 << 10;
/// Stack of the compiler in bytes; only what is used is allocated.
const COMPILER_STACK: usize = 256 << 20;

/// An expression over `device`, compiled.
pub(crate) struct DeviceSelector {
    text: String,
    expression: IdedExpr,
}

impl fmt::Debug for DeviceSelector {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.debug_tuple("DeviceSelector").field(&self.text).finish()
    }
}

impl DeviceSelector {
    /// Compiles an expression; the error names it.
    ///
    /// No API server has compiled those of pools: it refuses what the evaluation does not support or finish soon.
    pub fn compile(text: &str) -> Result<Self, String> {
        if text.len() > MAX_LENGTH {
            return Err(format!(
                "an expression has {} bytes, at most {MAX_LENGTH} are supported",
                text.len()
            ));
        }
        // The parser recurses once for each operator of a chain.
        let expression = std::thread::scope(|scope| {
            let compile = || {
                let mut expression =
                    parse(text).map_err(|e| format!("is not a CEL expression: {}", one_line(&e)))?;
                rewrite(&mut expression)?;
                check(&expression)?;
                Ok(expression)
            };
            let thread = std::thread::Builder::new().stack_size(COMPILER_STACK);
            let compiled = thread.spawn_scoped(scope, compile).map(ScopedJoinHandle::join);
            match compiled {
                Ok(Ok(compiled)) => compiled,
                Ok(Err(_)) => Err("cannot be compiled: the compiler panicked; see the log".to_owned()),
                Err(e) => Err(format!("cannot be compiled: {e}")),
            }
        });
        let expression = expression.map_err(|e: String| format!("`{text}` {e}"))?;
        Ok(Self { text: text.to_owned(), expression })
    }

    /// Whether the expression holds for a device; the error names the expression and the device.
    pub fn selects(&self, device: &SliceDevice, functions: &Context<'_>) -> Result<bool, String> {
        let failed = |why: &dyn fmt::Display| {
            format!("`{}` cannot be evaluated for device {}: {}", self.text, device.key, one_line(why))
        };
        // The evaluator panics on some expressions that it does not support; nothing of it outlives the evaluation.
        let evaluated = catch_unwind(AssertUnwindSafe(|| {
            let mut context = functions.new_inner_scope();
            context.add_variable_from_value("device", describe(device, functions)?);
            Value::resolve(&self.expression, &context).map_err(|e| e.to_string())
        }));
        let evaluated = evaluated.unwrap_or_else(|_| Err("the evaluation panicked; see the log".to_owned()));
        match evaluated.map_err(|e| failed(&e))? {
            Value::Bool(holds) => Ok(holds),
            other => Err(failed(&format!("it is a {}, not a bool", other.type_of()))),
        }
    }
}

/// The variable `device`.
fn describe(device: &SliceDevice, functions: &Context<'_>) -> Result<Value, String> {
    let mut attributes = Domains::new();
    for (name, value) in &device.attributes {
        let value = match value {
            AttributeValue::Bool(it) => Value::Bool(*it),
            AttributeValue::Int(it) => Value::Int(*it),
            AttributeValue::String(it) => Value::from(it.as_str()),
            AttributeValue::Version(it) => call("semver", release(it), functions)?,
        };
        insert(&mut attributes, name, value);
    }
    let mut capacity = Domains::new();
    for (name, amount) in &device.capacity {
        insert(&mut capacity, name, call("quantity", amount, functions)?);
    }
    Ok(Value::from(HashMap::from([
        ("driver", Value::from(device.key.driver.as_str())),
        ("attributes", by_domain(attributes)),
        ("capacity", by_domain(capacity)),
        ("allowMultipleAllocations", Value::Bool(device.allows_multiple_allocations)),
    ])))
}

/// The functions of CEL in Kubernetes.
pub(crate) fn functions() -> Context<'static> {
    let mut functions = Context::default().with_all();
    add_functions(&mut functions);
    functions
}

/// Values by domain and name.
type Domains = BTreeMap<String, HashMap<String, Value>>;

fn insert(domains: &mut Domains, qualified: &str, value: Value) {
    let (domain, name) = qualified.split_once('/').unwrap_or(("", qualified));
    domains.entry(domain.to_owned()).or_default().insert(name.to_owned(), value);
}

fn by_domain(domains: Domains) -> Value {
    Value::from(domains.into_iter().collect::<HashMap<_, HashMap<_, _>>>())
}

/// A value of a type that only a function of CEL makes.
fn call(function: &str, text: &str, functions: &Context<'_>) -> Result<Value, String> {
    let mut context = functions.new_inner_scope();
    context.add_variable_from_value("text", text);
    let program = Program::compile(&format!("{function}(text)")).map_err(|e| one_line(&e))?;
    program.execute(&context).map_err(|e| one_line(&e))
}

fn one_line(text: &(impl fmt::Display + ?Sized)) -> String {
    text.to_string().split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Compiled selectors by text; an error is kept as well.
#[derive(Debug, Default)]
pub(crate) struct SelectorCache(BTreeMap<String, Result<Arc<DeviceSelector>, String>>);

impl SelectorCache {
    /// Number of expressions that are kept.
    const MAX: usize = 1024;

    /// The compiled selector.
    pub fn get(&mut self, text: &str) -> Result<Arc<DeviceSelector>, String> {
        if let Some(known) = self.0.get(text) {
            return known.clone();
        }
        if self.0.len() >= Self::MAX {
            self.0.clear();
        }
        let compiled = DeviceSelector::compile(text).map(Arc::new);
        self.0.insert(text.to_owned(), compiled.clone());
        compiled
    }
}
