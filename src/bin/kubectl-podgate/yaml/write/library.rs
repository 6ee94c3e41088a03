//! Edits by a lossless syntax tree: slower than by lines, and less like a person's hand, but at home in every style.

use super::render::{self, Style};
use podgate::order::edit::{Edit, Op, Place, Step};
use serde_json::Value;
use std::str::FromStr;
use yaml_edit::{Document, YamlNode};

/// The text after the edit; `None` where the tree has no such place.
pub(crate) fn edit(text: &str, edit: &Edit, style: &Style) -> Option<String> {
    let document = Document::from_str(text).ok()?;
    let (last, parents) = edit.at.0.split_last()?;
    let parent = node(&document, &Place(parents.to_vec()))?;
    match (last, &edit.op) {
        (Step::Key(key), Op::Set(value)) => {
            let object = parent.as_mapping()?;
            let name = Fragment::new(&Value::String(key.clone()), style)?.node()?;
            object.set(name, Fragment::new(value, style)?.node()?);
        }
        (Step::Key(key), Op::Remove) => {
            parent.as_mapping()?.remove(key.as_str())?;
        }
        (Step::Index(index), Op::Set(value)) => {
            parent.as_sequence()?.set(*index, Fragment::new(value, style)?.node()?).then_some(())?;
        }
        (Step::Index(index), Op::Insert(value)) => {
            parent.as_sequence()?.insert(*index, Fragment::new(value, style)?.node()?);
        }
        (Step::Index(index), Op::Remove) => {
            parent.as_sequence()?.remove(*index)?;
        }
        (Step::Index(index), Op::Move(to)) => {
            let list = parent.as_sequence()?;
            let item = list.remove(*index)?;
            list.insert(*to, item);
        }
        _ => return None,
    }
    Some(document.to_string())
}

fn node(document: &Document, place: &Place) -> Option<YamlNode> {
    let mut steps = place.0.iter();
    let mut node = match steps.next() {
        None => {
            let object = document.as_mapping().map(YamlNode::Mapping);
            return object.or_else(|| document.as_sequence().map(YamlNode::Sequence));
        }
        Some(Step::Key(key)) => document.get(key.as_str())?,
        Some(Step::Index(index)) => document.as_sequence()?.get(*index)?,
    };
    for step in steps {
        node = match step {
            Step::Key(key) => node.get(key.as_str())?,
            Step::Index(index) => node.get_item(*index)?,
        };
    }
    Some(node)
}

/// A value as a tree of its own, of text that is quoted where needed: what is plain in it stays plain.
struct Fragment(Document);

impl Fragment {
    fn new(value: &Value, style: &Style) -> Option<Fragment> {
        let style = Style { newline: "\n", ..style.clone() };
        let text = match value {
            Value::Object(fields) if !fields.is_empty() => {
                fields.iter().map(|(key, value)| render::field(key, value, 0, &style)).collect()
            }
            _ => format!("{}\n", render::inline(value)),
        };
        Document::from_str(&text).ok().map(Fragment)
    }

    fn node(&self) -> Option<YamlNode> {
        let object = self.0.as_mapping().map(YamlNode::Mapping);
        let list = || self.0.as_sequence().map(YamlNode::Sequence);
        object.or_else(list).or_else(|| self.0.as_scalar().map(YamlNode::Scalar))
    }
}
