/** A run that has loaded a skill and goes on in another process keeps the skill as it was, though it was changed meanwhile. */
import { expect, test } from 'vitest';
import { startUpstream } from '../contract-tests/upstream/start-upstream.ts';
import type { PromptRequest, Session } from './contract/api.ts';
import { hasEnded, messagesOf, runThat, startCrashing } from './crash-checks.ts';
import { scriptedSettings, temporaryFolder, writeSettings } from './server-process.ts';
import { zipOf } from './test-archives.ts';
import { clientOf } from './test-client.ts';

const question = { id: 'q', type: 'yes_no', text: 'Go on?' };

function skillSaying(word: string): Blob {
  const files = {
    'SKILL.md': '---\nname: tidy\ndescription: Tidies up.\n---\nRun run.sh.\n',
    'run.sh': { content: `#!/bin/sh\necho ${word} broom\n`, mode: 0o100755 },
  };
  return new Blob([zipOf(files)]);
}

test.each(['stopped', 'killed'] as const)('whose first process is %s', async (how) => {
  const upstream = await startUpstream();
  try {
    const folder = await temporaryFolder();
    await writeSettings(folder, scriptedSettings(upstream.url));
    const first = await startCrashing(folder, { SERVICE_DRAIN_SECONDS: '1' });
    const put = async (method: string, path: string, word: string) => {
      const form = new FormData();
      if (method === 'POST') form.append('scope', 'user');
      form.append('file', skillSaying(word), 'skill.zip');
      const headers = { authorization: `Bearer ${first.key}`, 'if-match': '*' };
      const response = await fetch(first.url + path, { method, headers, body: form });
      expect(response.ok).toBe(true);
      return (await response.json()) as { readonly id: string }; // as the contract has it
    };
    const skill = await put('POST', '/api/v1/skills', 'old');
    const before = clientOf(first, first.key);
    const rules = { permission_rules: [{ tool: 'bash', decision: 'allow' }] };
    const { body: session } = await before.post<Session>('/api/v1/sessions', rules);
    await upstream.script([
      { when: { step: 0 }, reply: { tool_calls: [{ name: 'skill', arguments: { name: 'tidy' } }] } },
      {
        when: { step: 1 },
        reply: { tool_calls: [{ name: 'ask_user', arguments: { questions: [question] } }] },
      },
    ]);
    const query = { prompt: 'Use it.', session_id: session.id };
    const stream = await before.stream('/api/v1/query/stream', query);
    await stream.until(({ name, data }) => name === 'runtime' && data.type === 'prompt_requested');
    const told = stream.events.flatMap(({ name, data }) =>
      name === 'runtime' && data.type === 'tool_finished' ? [data.content] : [],
    );
    const place = /its folder is (\S+),/.exec(told[0] ?? '')?.[1] ?? '';
    await put('PUT', `/api/v1/skills/${skill.id}`, 'new');
    const use = [
      { name: 'view', arguments: { file_path: `${place}/run.sh` } },
      { name: 'bash', arguments: { command: `${place}/run.sh` } },
      { name: 'view', arguments: { file_path: `${place}/../../../service.db` } },
    ];
    await upstream.script([{ when: { step: 2 }, reply: { tool_calls: use } }, { reply: { text: 'Done.' } }]);
    await (how === 'killed' ? first.kill9() : first.stop());
    const client = clientOf(await startCrashing(folder), first.key);
    await runThat(client, stream.runId, ({ status }) => status === 'waiting_prompt');
    const path = `/api/v1/sessions/${session.id}/prompts`;
    const { body: open } = await client.get<{ data: PromptRequest[] }>(`${path}?status=pending`);
    await client.post(`${path}/${open.data[0]?.id}/reply`, { answers: [{ question_id: 'q', yes: true }] });
    await runThat(client, stream.runId, hasEnded);
    const results = (await messagesOf(client, session.id)).flatMap(({ parts }) =>
      parts.flatMap((part) => (part.type === 'tool_result' ? [part.content] : [])),
    );
    expect(results.slice(-3)).toEqual([
      expect.stringContaining('old broom'),
      expect.stringContaining('old broom'),
      expect.stringContaining('belongs to the service itself'),
    ]);
  } finally {
    await upstream.stop();
  }
});
