/** What the model behind the tests of whole clients says: one script for all of them, told apart by the user's last words. */

/** Enough chunks that a cut can come before, within and behind each part of an answer. */
const lastCut = 16;

const weather = { name: 'get_weather', arguments: { place: 'Rome' } };
const report = { city: 'Rome', rains: true };

/** After how many chunks the answers may be cut. */
export const cutPlaces = Array.from({ length: lastCut + 1 }, (_, after) => after);

const cuts = cutPlaces.flatMap((after) => [
  {
    when: { last_user: `^cut the text after ${after}$` },
    reply: { text: 'Rain in Rome, as ever.', chunk_size: 4 },
    fail: { kind: 'cut', after_chunks: after },
  },
  {
    when: { last_user: `^end the text after ${after}$` },
    reply: { text: 'Rain in Rome, as ever.', chunk_size: 4 },
    fail: { kind: 'end', after_chunks: after },
  },
  {
    when: { last_user: `^cut the call after ${after}$` },
    reply: { tool_calls: [weather], chunk_size: 4 },
    fail: { kind: 'cut', after_chunks: after },
  },
]);

const refusals = [401, 429, 500, 529].map((status) => ({
  when: { last_user: `^fail with ${status}$` },
  fail: { kind: 'status', status },
}));

export const playedModel = [
  ...cuts,
  ...refusals,
  {
    when: { last_user: '^break off$' },
    reply: { text: 'Half' },
    fail: { kind: 'error_frame', after_chunks: 3 },
  },
  {
    when: { last_user: '^hang$' },
    reply: { text: 'Half', chunk_size: 2 },
    fail: { kind: 'hang', after_chunks: 4 },
  },
  { when: { last_user: '^think$' }, reply: { reasoning: 'Let me see.', text: 'Yes.' } },
  { when: { last_user: '^much$' }, reply: { text: 'Much', stop_reason: 'max_tokens' } },
  // Clients that want an answer in a form offer it as a tool, or ask for it by its schema.
  {
    when: { last_user: '^report$', offers_tool: 'json' },
    reply: { tool_calls: [{ name: 'json', arguments: report }] },
  },
  {
    when: { last_user: '^report$', offers_tool: 'Report' },
    reply: { tool_calls: [{ name: 'Report', arguments: report }] },
  },
  { when: { last_user: '^report$' }, reply: { text: JSON.stringify(report) } },
  {
    when: { last_user: '^weather$', tool_results: 0 },
    reply: { text: 'I look.', tool_calls: [weather, { ...weather, arguments: { place: 'Oslo' } }] },
  },
  { when: { last_user: '^weather$' }, reply: { text: 'They said: {{last_tool_result}}' } },
  { reply: { text: 'You said: {{last_user}}' } },
];
