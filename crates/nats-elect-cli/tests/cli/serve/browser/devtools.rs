//! A browser, and what it is told and asked through its `DevTools` protocol.

use std::io::{BufRead, BufReader, Write};
use std::process::{ChildStdin, ChildStdout};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use data_encoding::BASE64;
use serde_json::{Value, json};

use super::chromium;
use crate::fleet::{SOON, comes_true};
use crate::running::Process;

/// Messages end with this.
const END: u8 = 0;

/// A browser with one tab. It ends with this.
pub struct Browser {
    _process: Process,
    input: Mutex<(u64, ChildStdin)>,
    heard: Arc<Heard>,
    session: Option<String>,
    _folder: tempfile::TempDir,
}

/// All that it said.
#[derive(Default)]
struct Heard {
    messages: Mutex<Vec<Value>>,
    more: Condvar,
}

impl Browser {
    /// A tab with nothing in it.
    pub fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut child = chromium::command(folder.path()).spawn().expect("Chromium");
        let input = child.stdin.take().expect("a pipe");
        let output = child.stdout.take().expect("a pipe");
        let heard = Arc::<Heard>::default();
        let hearing = Arc::clone(&heard);
        thread::spawn(move || hearing.listen(output));
        let mut browser = Self {
            _process: Process(child),
            input: Mutex::new((0, input)),
            heard,
            session: None,
            _folder: folder,
        };
        let tab = browser.call("Target.createTarget", &json!({ "url": "about:blank" }));
        let tab = json!({ "targetId": tab["targetId"], "flatten": true });
        let session = browser.call("Target.attachToTarget", &tab);
        browser.session = session["sessionId"].as_str().map(ToOwned::to_owned);
        for domain in [
            "Page",
            "Runtime",
            "Network",
            "Log",
            "Audits",
            "Accessibility",
        ] {
            browser.call(&format!("{domain}.enable"), &json!({}));
        }
        browser
    }

    /// Does this, and says what came of it.
    #[track_caller]
    pub fn call(&self, method: &str, parameters: &Value) -> Value {
        let mut message = json!({ "method": method, "params": parameters });
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        let id = {
            let mut input = self.input.lock().unwrap_or_else(PoisonError::into_inner);
            input.0 += 1;
            message["id"] = json!(input.0);
            let mut bytes = message.to_string().into_bytes();
            bytes.push(END);
            input.1.write_all(&bytes).expect("a browser");
            input.0
        };
        let answer = self.heard.answer(id);
        assert!(answer["error"].is_null(), "{method}: {}", answer["error"]);
        answer["result"].clone()
    }

    /// Goes there, and waits until all of it is loaded.
    #[track_caller]
    pub fn open(&self, url: &str) {
        let loaded = self.events("Page.loadEventFired").len();
        let went = self.call("Page.navigate", &json!({ "url": url }));
        assert!(went["errorText"].is_null(), "{url}: {went}");
        self.heard.wait("the page", |messages| {
            let loads = messages
                .iter()
                .filter(|it| it["method"] == "Page.loadEventFired");
            (loads.count() > loaded).then_some(())
        });
    }

    /// The value of an expression in the page.
    #[track_caller]
    pub fn value(&self, expression: &str) -> Value {
        let asked =
            json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let answer = self.call("Runtime.evaluate", &asked);
        let exception = &answer["exceptionDetails"];
        assert!(exception.is_null(), "{expression}: {exception}");
        answer["result"]["value"].clone()
    }

    #[track_caller]
    pub fn text(&self, expression: &str) -> String {
        let value = self.value(expression);
        let text = value.as_str();
        text.unwrap_or_else(|| panic!("{expression}: {value}"))
            .to_owned()
    }

    /// Waits until an expression in the page is true.
    pub async fn until(&self, what: &str, expression: &str) {
        comes_true(what, async || self.value(expression) == true).await;
    }

    /// Presses a key and lets it go.
    pub fn press(&self, key: &str) {
        let (code, text) = match key {
            "Tab" => (9, ""),
            "Enter" => (13, "\r"),
            "Space" => (32, " "),
            other => panic!("no key {other}"),
        };
        let name = if key == "Space" { " " } else { key };
        for kind in ["keyDown", "keyUp"] {
            let text = if kind == "keyDown" { text } else { "" };
            let event = json!({ "type": kind, "key": name, "code": key, "windowsVirtualKeyCode": code, "text": text });
            self.call("Input.dispatchKeyEvent", &event);
        }
    }

    /// As on a screen of this size.
    pub fn resize(&self, width: u32, height: u32) {
        let size =
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.call("Emulation.setDeviceMetricsOverride", &size);
    }

    /// Whether the user likes it `light` or `dark`.
    pub fn scheme(&self, scheme: &str) {
        let wish = json!({ "name": "prefers-color-scheme", "value": scheme });
        let wishes = json!({ "features": [wish] });
        self.call("Emulation.setEmulatedMedia", &wishes);
    }

    /// Whether the next page may run scripts.
    pub fn script(&self, may_run: bool) {
        let disabled = json!({ "value": !may_run });
        self.call("Emulation.setScriptExecutionDisabled", &disabled);
    }

    /// A picture of the screen, in this format.
    pub fn picture(&self, format: &str) -> Vec<u8> {
        let mut how = json!({ "format": format });
        if format != "png" {
            how["quality"] = json!(80);
        }
        let picture = self.call("Page.captureScreenshot", &how);
        let data = picture["data"].as_str().expect("a picture");
        BASE64.decode(data.as_bytes()).expect("Base64")
    }

    /// All events of one kind so far.
    pub fn events(&self, method: &str) -> Vec<Value> {
        let messages = self.heard.messages();
        let of_kind = messages.iter().filter(|it| it["method"] == method);
        of_kind.map(|it| it["params"].clone()).collect()
    }

    /// All that the browser found fault with: errors, exceptions, violations of the policy.
    pub fn complaints(&self) -> Vec<Value> {
        let mut complaints = self.events("Log.entryAdded");
        complaints.extend(self.events("Runtime.exceptionThrown"));
        complaints.extend(self.events("Runtime.consoleAPICalled"));
        complaints.extend(self.events("Audits.issueAdded"));
        complaints
    }
}

impl Heard {
    fn listen(&self, output: ChildStdout) {
        for message in BufReader::new(output).split(END) {
            let Ok(message) = message else { break };
            let message = serde_json::from_slice(&message).expect("JSON");
            self.messages().push(message);
            self.more.notify_all();
        }
    }

    fn messages(&self) -> MutexGuard<'_, Vec<Value>> {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[track_caller]
    fn answer(&self, id: u64) -> Value {
        self.wait("an answer", |messages| {
            messages.iter().rev().find(|it| it["id"] == id).cloned()
        })
    }

    #[track_caller]
    fn wait<T>(&self, what: &str, mut find: impl FnMut(&[Value]) -> Option<T>) -> T {
        let mut found = None;
        let messages = self.messages();
        let has_not = |messages: &mut Vec<Value>| {
            found = find(messages);
            found.is_none()
        };
        let _messages = self
            .more
            .wait_timeout_while(messages, SOON, has_not)
            .unwrap_or_else(PoisonError::into_inner);
        found.unwrap_or_else(|| panic!("the browser is late: {what}"))
    }
}
