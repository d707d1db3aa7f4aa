//! Which methods there are, and how the parameters of each are read.

use serde::Deserialize;

use crate::calls::Call;

/// The names of all methods.
pub const METHODS: [&str; 28] = [
    "agent.ping",
    "command.run",
    "process.start",
    "process.wait",
    "process.stop",
    "netns.create",
    "netns.delete",
    "folder.create",
    "folder.delete",
    "relay.open",
    "relay.send",
    "relay.close",
    "setting.read",
    "setting.write",
    "sample.read",
    "sample.start",
    "sample.stop",
    "traffic.open",
    "traffic.run",
    "traffic.close",
    "device.start",
    "device.read",
    "device.stop",
    "facts.read",
    "journal.list",
    "journal.undo",
    "machine.power_off",
    "agent.exit",
];

impl Call {
    /// The call of `method` with `params`; `None` when there is no such method.
    pub fn parse(method: &str, params: &str) -> Option<serde_json::Result<Self>> {
        fn read<'a, T: Deserialize<'a>>(params: &'a str, call: fn(T) -> Call) -> serde_json::Result<Call> {
            serde_json::from_str(params).map(call)
        }
        Some(match method {
            "agent.ping" => read(params, Self::AgentPing),
            "command.run" => read(params, Self::CommandRun),
            "process.start" => read(params, Self::ProcessStart),
            "process.wait" => read(params, Self::ProcessWait),
            "process.stop" => read(params, Self::ProcessStop),
            "netns.create" => read(params, Self::NetnsCreate),
            "netns.delete" => read(params, Self::NetnsDelete),
            "folder.create" => read(params, Self::FolderCreate),
            "folder.delete" => read(params, Self::FolderDelete),
            "relay.open" => read(params, Self::RelayOpen),
            "relay.send" => read(params, Self::RelaySend),
            "relay.close" => read(params, Self::RelayClose),
            "setting.read" => read(params, Self::SettingRead),
            "setting.write" => read(params, Self::SettingWrite),
            "sample.read" => read(params, Self::SampleRead),
            "sample.start" => read(params, Self::SampleStart),
            "sample.stop" => read(params, Self::SampleStop),
            "traffic.open" => read(params, Self::TrafficOpen),
            "traffic.run" => read(params, Self::TrafficRun),
            "traffic.close" => read(params, Self::TrafficClose),
            "device.start" => read(params, Self::DeviceStart),
            "device.read" => read(params, Self::DeviceRead),
            "device.stop" => read(params, Self::DeviceStop),
            "facts.read" => read(params, Self::FactsRead),
            "journal.list" => read(params, Self::JournalList),
            "journal.undo" => read(params, Self::JournalUndo),
            "machine.power_off" => read(params, Self::MachinePowerOff),
            "agent.exit" => read(params, Self::AgentExit),
            _ => return None,
        })
    }
}
