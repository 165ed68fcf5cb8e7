// The AI SDK with its provider for APIs like OpenAI's and with that for OpenAI itself,
// which asks for responses, against a gateway.
// Arguments: base URL, token. Ends with "all is well", or with what is wrong.
import assert from "node:assert/strict";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { embed, embedMany, generateText, jsonSchema, stepCountIs, streamText, tool } from "ai";

const [baseURL, apiKey] = process.argv.slice(2);
const provider = createOpenAICompatible({ name: "gateway", baseURL, apiKey, includeUsage: true });
const models = [
  provider("openclaw/ops"),
  createOpenAI({ baseURL, apiKey }).responses("openclaw/ops"),
  createOpenAI({ baseURL, apiKey }).chat("openclaw/ops"),
];
for (const model of models) await proves(model);

const embedder = provider.embeddingModel("openclaw/ops");
const one = await embed({ model: embedder, value: "7", maxRetries: 0 });
assert.equal(one.embedding[0], 7);
assert.equal(one.usage.tokens, 1);
const values = Array.from({ length: 100 }, (_, index) => String(index));
const many = await embedMany({ model: provider.embeddingModel("openclaw"), values, maxRetries: 0 });
assert.deepEqual(many.embeddings.map(([first]) => first), values.map(Number));
console.log("all is well");

async function proves(model) {
  const common = { model, maxRetries: 0 };

  const whole = await generateText({ ...common, prompt: '@mock text text="hello"' });
  assert.equal(whole.text, "hello");
  assert.equal(whole.finishReason, "stop");
  assert.ok(whole.usage.totalTokens > 0);

  // What was answered may only be named now.
  const question = { role: "user", content: '@mock text text="again"' };
  const messages = [{ role: "user", content: "hello?" }, ...whole.response.messages, question];
  assert.equal((await generateText({ ...common, messages })).text, "again");

  const failing = streamText({ ...common, prompt: "@mock err status=400", onError() {} });
  for await (const piece of failing.fullStream) {
    assert.notEqual(piece.error?.name, "AI_TypeValidationError");
  }

  // A run that failed is not begun again when tools have done something in it.
  const acting = "@mock tool name=session_status args={} status=400";
  const acted = generateText({ model, maxRetries: 2, prompt: acting });
  await assert.rejects(acted, (error) => error.statusCode === 400);

  const stream = streamText({ ...common, prompt: "@mock stream n=5 delay=5" });
  let text = "";
  for await (const piece of stream.textStream) text += piece;
  assert.equal(text, "w1 w2 w3 w4 w5");
  assert.ok((await stream.usage).totalTokens > 0);

  const called = [];
  const add = tool({
    description: "adds",
    inputSchema: jsonSchema({ type: "object", properties: { a: { type: "number" } } }),
    execute: async (given) => {
      called.push(given);
      return '3 @mock text text="three"';
    },
  });
  for (const ask of [generateText, streamText]) {
    const done = await ask({
      ...common,
      prompt: '@mock tool name=add args={"a":1} then="never"',
      tools: { add },
      stopWhen: stepCountIs(2),
    });
    assert.equal(await done.text, "three");
  }
  assert.deepEqual(called, [{ a: 1 }, { a: 1 }]);

  const dot =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
  const seen = await generateText({
    ...common,
    messages: [
      {
        role: "user",
        content: [
          { type: "text", text: '@mock text text="seen"' },
          { type: "image", image: Buffer.from(dot, "base64"), mediaType: "image/png" },
        ],
      },
    ],
  });
  assert.equal(seen.text, "seen");
}
