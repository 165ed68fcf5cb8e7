//! Events of an answer and of a run, and the reply to a channel, as programs
//! of the original's family exchange them.
//!
//! Owns: their JSON form. Must not: decide when one is sent.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::message::{AgentMessage, AssistantMessage, StopReason, ToolCall};

/// What happens while a model answers. `content_index` counts blocks; `partial`
/// is the message so far.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum AssistantMessageEvent {
    /// The answer begins.
    Start {
        /// Still empty.
        #[serde(with = "assistant")]
        partial: AssistantMessage,
    },
    /// A text block begins.
    TextStart {
        /// Which block.
        content_index: usize,
        /// The message so far.
        #[serde(with = "assistant")]
        partial: AssistantMessage,
    },
    /// More of it.
    TextDelta {
        /// Which block.
        content_index: usize,
        /// The new piece only.
        delta: String,
        /// The message so far.
        #[serde(with = "assistant")]
        partial: AssistantMessage,
    },
    /// It is complete.
    TextEnd {
        /// Which block.
        content_index: usize,
        /// All of its text.
        content: String,
        /// The message so far.
        #[serde(with = "assistant")]
        partial: AssistantMessage,
    },
    /// A thinking block begins.
    ThinkingStart {
        /// Which block.
        content_index: usize,
        /// The message so far.
        #[serde(with = "assistant")]
        partial: AssistantMessage,
    },
    /// More of it.
    ThinkingDelta {
        /// Which block.
        content_index: usize,
        /// The new piece only.
        delta: String,
        /// The message so far.
        #[serde(with = "assistant")]
        partial: AssistantMessage,
    },
    /// It is complete.
    ThinkingEnd {
        /// Which block.
        content_index: usize,
        /// All of the thought.
        content: String,
        /// The message so far.
        #[serde(with = "assistant")]
        partial: AssistantMessage,
    },
    /// A tool call begins.
    #[serde(rename = "toolcall_start")]
    ToolCallStart {
        /// Which block.
        content_index: usize,
        /// The message so far.
        #[serde(with = "assistant")]
        partial: AssistantMessage,
    },
    /// More of its arguments, as JSON text.
    #[serde(rename = "toolcall_delta")]
    ToolCallDelta {
        /// Which block.
        content_index: usize,
        /// The new piece only.
        delta: String,
        /// The message so far.
        #[serde(with = "assistant")]
        partial: AssistantMessage,
    },
    /// It is complete.
    #[serde(rename = "toolcall_end")]
    ToolCallEnd {
        /// Which block.
        content_index: usize,
        /// The call.
        tool_call: Box<ToolCall>,
        /// The message so far.
        #[serde(with = "assistant")]
        partial: AssistantMessage,
    },
    /// The answer is complete.
    Done {
        /// `stop`, `length` or `toolUse`.
        reason: StopReason,
        /// All of it.
        #[serde(with = "assistant")]
        message: AssistantMessage,
    },
    /// The answer ended early.
    Error {
        /// `aborted` or `error`.
        reason: StopReason,
        /// What had arrived, with its `errorMessage`.
        #[serde(with = "assistant")]
        error: AssistantMessage,
    },
}

/// What happens in a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum AgentEvent {
    /// The run begins.
    AgentStart,
    /// The run is over.
    AgentEnd {
        /// Messages that the run added.
        messages: Vec<AgentMessage>,
    },
    /// The model is asked.
    TurnStart,
    /// It has answered and its tools have run.
    TurnEnd {
        /// Its answer.
        message: AgentMessage,
        /// Results of its calls, in order; all of role `toolResult`.
        tool_results: Vec<AgentMessage>,
    },
    /// A message begins.
    MessageStart {
        /// As far as it is known.
        message: AgentMessage,
    },
    /// An answer grows.
    MessageUpdate {
        /// The message so far.
        message: AgentMessage,
        /// How it grew.
        assistant_message_event: Box<AssistantMessageEvent>,
    },
    /// A message is complete.
    MessageEnd {
        /// All of it.
        message: AgentMessage,
    },
    /// A tool begins.
    ToolExecutionStart {
        /// Which call.
        tool_call_id: String,
        /// Which tool.
        tool_name: String,
        /// What it was given.
        args: Value,
    },
    /// A tool has something to show already.
    ToolExecutionUpdate {
        /// Which call.
        tool_call_id: String,
        /// Which tool.
        tool_name: String,
        /// What it was given.
        args: Value,
        /// All that it has so far.
        partial_result: Value,
    },
    /// A tool is done.
    ToolExecutionEnd {
        /// Which call.
        tool_call_id: String,
        /// Which tool.
        tool_name: String,
        /// What it answered.
        result: Value,
        /// Whether it failed.
        is_error: bool,
    },
}

/// What a channel gets to deliver after a run.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReplyPayload {
    /// Markdown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// One attachment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub media_url: Option<String>,
    /// Several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub media_urls: Option<Vec<String>>,
    /// The message that it answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reply_to_id: Option<String>,
    /// Whether it tells of a failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_error: Option<bool>,
}

/// An answer together with its `role`, which its type has only by name.
mod assistant {
    use serde::de::Error as _;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::{AgentMessage, AssistantMessage};

    #[derive(Serialize)]
    #[serde(tag = "role", rename_all = "camelCase")]
    enum Tagged<'a> {
        Assistant(&'a AssistantMessage),
    }

    pub(super) fn serialize<S: Serializer>(
        message: &AssistantMessage,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        Tagged::Assistant(message).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<AssistantMessage, D::Error> {
        match AgentMessage::deserialize(deserializer)? {
            AgentMessage::Assistant(message) => Ok(message),
            _ => Err(D::Error::custom("role must be assistant")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::de::DeserializeOwned;

    const PARTIAL: &str = r#"{"role":"assistant","content":[{"type":"text","text":"h"}],"api":"a","provider":"p","model":"m","usage":{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"totalTokens":0,"cost":{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"total":0}},"stopReason":"stop","timestamp":5}"#;

    /// `@` stands for the message so far.
    #[track_caller]
    fn survives<T: Serialize + DeserializeOwned>(text: &str) {
        let text = text.replace('@', PARTIAL);
        let read: T = serde_json::from_str(&text).unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), text);
    }

    #[test]
    fn events_of_an_answer_are_written_as_the_original_writes_them() {
        for text in [
            r#"{"type":"start","partial":@}"#,
            r#"{"type":"text_start","contentIndex":0,"partial":@}"#,
            r#"{"type":"text_delta","contentIndex":0,"delta":"h","partial":@}"#,
            r#"{"type":"text_end","contentIndex":0,"content":"h","partial":@}"#,
            r#"{"type":"thinking_start","contentIndex":1,"partial":@}"#,
            r#"{"type":"thinking_delta","contentIndex":1,"delta":"h","partial":@}"#,
            r#"{"type":"thinking_end","contentIndex":1,"content":"h","partial":@}"#,
            r#"{"type":"toolcall_start","contentIndex":2,"partial":@}"#,
            r#"{"type":"toolcall_delta","contentIndex":2,"delta":"{","partial":@}"#,
            r#"{"type":"toolcall_end","contentIndex":2,"toolCall":{"type":"toolCall","id":"c","name":"t","arguments":{}},"partial":@}"#,
            r#"{"type":"done","reason":"toolUse","message":@}"#,
            r#"{"type":"error","reason":"aborted","error":@}"#,
        ] {
            survives::<AssistantMessageEvent>(text);
        }
    }

    #[test]
    fn events_of_a_run_are_written_as_the_original_writes_them() {
        for text in [
            r#"{"type":"agent_start"}"#,
            r#"{"type":"agent_end","messages":[@]}"#,
            r#"{"type":"turn_start"}"#,
            r#"{"type":"turn_end","message":@,"toolResults":[{"role":"toolResult","toolCallId":"c","toolName":"t","content":[],"isError":false,"timestamp":1}]}"#,
            r#"{"type":"message_start","message":@}"#,
            r#"{"type":"message_update","message":@,"assistantMessageEvent":{"type":"start","partial":@}}"#,
            r#"{"type":"message_end","message":@}"#,
            r#"{"type":"tool_execution_start","toolCallId":"c","toolName":"t","args":{"a":1}}"#,
            r#"{"type":"tool_execution_update","toolCallId":"c","toolName":"t","args":{},"partialResult":{"n":1}}"#,
            r#"{"type":"tool_execution_end","toolCallId":"c","toolName":"t","result":[],"isError":true}"#,
        ] {
            survives::<AgentEvent>(text);
        }
    }

    #[test]
    fn a_reply_has_only_what_is_there() {
        survives::<ReplyPayload>("{}");
        survives::<ReplyPayload>(
            r#"{"text":"t","mediaUrl":"u","mediaUrls":["u"],"replyToId":"7","isError":false}"#,
        );
    }
}
