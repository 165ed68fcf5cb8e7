// Opens a transcript with the session manager that the original is built on,
// takes the steps given as JSON, and prints what it has then.
//
//   node steps.mjs <session-manager.js> <transcript> '[{"append": {...}}, ...]'
import { pathToFileURL } from 'node:url';

const [library, file, steps] = process.argv.slice(2);
const { SessionManager } = await import(pathToFileURL(library).href);
const manager = SessionManager.open(file);
for (const step of JSON.parse(steps)) {
  if (step.append) manager.appendMessage(step.append);
  if (step.branch) manager.branch(step.branch);
  if (step.branchWithSummary) manager.branchWithSummary(...step.branchWithSummary);
  if (step.compaction) manager.appendCompaction(...step.compaction);
  if (step.model) manager.appendModelChange(...step.model);
  if (step.thinking) manager.appendThinkingLevelChange(step.thinking);
  if (step.custom) manager.appendCustomEntry(...step.custom);
  if (step.note) manager.appendCustomMessageEntry(...step.note);
  if (step.name) manager.appendSessionInfo(step.name);
  if (step.label) manager.appendLabelChange(...step.label);
}
const { messages, thinkingLevel, model } = manager.buildSessionContext();
const entries = manager.getEntries().map(({ type, id, parentId }) => ({ type, id, parentId }));
const header = manager.getHeader();
console.log(JSON.stringify({ messages, thinkingLevel, model, entries, header, leaf: manager.getLeafId() }));
