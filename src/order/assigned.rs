//! The file of `--orders`. It assigns orders to Pods whose template declares none, such as the Pods of an operator.

use crate::order::declare::{check_key, is_or_resembles_podgate_key, keys};
use crate::order::edit::{Editor, Place};
use crate::order::finding::{Finding, Level, has_errors};
use crate::order::inject::Injected;
use crate::order::lint::{Target, strip_and_check};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// Maximum size of the file, in bytes.
pub const FILE_MAX: usize = 128 << 10;
/// Maximum number of orders in the file.
const ORDERS_MAX: usize = 100;
/// Maximum number of namespaces, labels or annotations of one order.
const FIELDS_MAX: usize = 64;

/// Content of the file. The first order that matches a Pod applies.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(try_from = "RawFile")]
pub struct AssignedOrders(Vec<AssignedOrder>);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFile {
    orders: Vec<AssignedOrder>,
}

/// Annotations for the Pods that have certain labels.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct AssignedOrder {
    /// Place of the order in the file, such as `orders[0]`.
    #[serde(skip)]
    pub name: String,
    /// Names of the namespaces, in which one `*` stands for any text. If empty, the order applies in all namespaces.
    #[serde(default)]
    namespaces: Vec<String>,
    /// Labels that the Pod must have.
    pod_labels: BTreeMap<String, String>,
    /// Annotations that the Pod gets.
    annotations: BTreeMap<AnnotationKey, String>,
}

/// Key of an annotation that declares an order, or adjusts a declared order.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
struct AnnotationKey(String);

impl TryFrom<String> for AnnotationKey {
    type Error = String;

    fn try_from(key: String) -> Result<AnnotationKey, String> {
        if keys::is_manifest_annotation(&key) && key != keys::INJECTION_RECORD {
            return Ok(AnnotationKey(key));
        }
        let other = || format!("an order cannot set the annotation {key:?}; remove it");
        Err(check_key(&key, "annotations", Place::root()).map_or_else(other, |finding| finding.text()))
    }
}

impl TryFrom<RawFile> for AssignedOrders {
    type Error = String;

    fn try_from(RawFile { mut orders }: RawFile) -> Result<AssignedOrders, String> {
        if orders.len() > ORDERS_MAX {
            return Err(format!("more than {ORDERS_MAX} orders; combine some of them"));
        }
        for (index, order) in orders.iter_mut().enumerate() {
            order.name = format!("orders[{index}]");
            order.check().map_err(|error| format!("{}: {error}", order.name))?;
        }
        Ok(AssignedOrders(orders))
    }
}

impl AssignedOrders {
    /// Returns the orders, as in the file.
    pub fn iter(&self) -> impl Iterator<Item = &AssignedOrder> {
        self.0.iter()
    }

    /// Returns the order for a Pod or template of `namespace`. Returns `None` if the template has a key of podgate.
    pub fn order_to_assign(&self, namespace: &str, template: &Value) -> Option<&AssignedOrder> {
        let maps = ["annotations", "labels"].map(|field| template["metadata"][field].as_object());
        let mut keys = maps.into_iter().flatten().flat_map(serde_json::Map::keys);
        self.first_match(namespace, template).filter(|_| !keys.any(|key| is_or_resembles_podgate_key(key)))
    }

    /// Returns the order that this Pod of `namespace` has got: the Pod has all annotations of the order.
    pub fn find_assigned(&self, namespace: &str, pod: &Value) -> Option<&AssignedOrder> {
        let is_set = |(key, text): (&AnnotationKey, &String)| pod["metadata"]["annotations"][&key.0] == text.as_str();
        self.first_match(namespace, pod).filter(|order| order.annotations.iter().all(is_set))
    }

    fn first_match(&self, namespace: &str, template: &Value) -> Option<&AssignedOrder> {
        let labels = &template["metadata"]["labels"];
        let has_labels =
            |order: &AssignedOrder| order.pod_labels.iter().all(|(key, text)| labels[key] == text.as_str());
        self.0.iter().find(|order| order.includes(namespace) && has_labels(order))
    }
}

impl AssignedOrder {
    fn check(&self) -> Result<(), String> {
        let sizes = [self.namespaces.len(), self.pod_labels.len(), self.annotations.len()];
        if sizes.into_iter().any(|size| size > FIELDS_MAX) {
            return Err(format!("more than {FIELDS_MAX} namespaces, labels or annotations; split the order"));
        }
        let is_name = |text: &str| text.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-'));
        let is_pattern = |text: &&String| !text.is_empty() && is_name(&text.replacen('*', "", 1));
        if let Some(bad) = self.namespaces.iter().find(|text| !is_pattern(text)) {
            return Err(format!("the namespace {bad:?} is not a name; write a name, or one * for any text: shop-*"));
        }
        if self.pod_labels.is_empty() {
            return Err("podLabels has no label; add a label that only the Pods of this order have".to_owned());
        }
        let declares = self.annotations.keys().any(|key| keys::declares_order(&key.0));
        declares.then_some(()).ok_or_else(|| format!("annotations declares no order; add {}", keys::ORDER))
    }

    fn includes(&self, namespace: &str) -> bool {
        let matches = |pattern: &String| match pattern.split_once('*') {
            None => pattern == namespace,
            Some((start, end)) => namespace.strip_prefix(start).is_some_and(|rest| rest.ends_with(end)),
        };
        self.namespaces.is_empty() || self.namespaces.iter().any(matches)
    }

    /// Returns `template` with the order's annotations.
    pub fn assign(&self, template: &Value) -> Result<Injected, Finding> {
        let mut editor = Editor::new(template.clone());
        self.annotations.iter().try_for_each(|(key, text)| editor.annotate(&key.0, text))?;
        let (value, edits) = editor.finish();
        Ok(Injected { value, edits, ..Injected::default() })
    }

    /// Adds the order's annotations to `pod`, and calls `inject`. Returns no edits if the order needs no injection, so
    /// that a Pod with these annotations is always injected. Fails with all findings if the order does not fit.
    pub fn inject(
        &self,
        pod: &Value,
        inject: impl FnOnce(&Value) -> Result<Injected, Vec<Finding>>,
    ) -> Result<Injected, Vec<Finding>> {
        let mut assigned = self.assign(pod)?;
        let mut injected = inject(&assigned.value)?;
        injected.findings.extend(strip_and_check(&assigned.value, &injected, Target::default()));
        if !injected.edits.is_empty() {
            assigned.edits.append(&mut injected.edits);
            injected.edits = assigned.edits;
        }
        if has_errors(&injected.findings) { Err(injected.findings) } else { Ok(injected) }
    }

    /// Returns the warning that the order does not fit a Pod. `findings` are those of the Pod with the order.
    pub fn misfit(&self, findings: &[Finding]) -> Finding {
        let what = format!(
            "{} does not fit this Pod, so podgate does not change the Pod: {}",
            self.name,
            first_error(findings)
        );
        Finding::warning("order-does-not-fit", Place::metadata("annotations"), what)
    }
}

/// Returns the text of the first error, the reason why an order does not fit.
pub fn first_error(findings: &[Finding]) -> String {
    findings.iter().find(|finding| finding.level == Level::Error).map(Finding::text).unwrap_or_default()
}
