/** What a session knows of files where its runs are carried out by several processes. */
import { expect, test } from 'vitest';
import { createMemoryTranscript } from '../memory/memory-transcript.ts';
import { noUsage } from '../models/model.ts';
import { createFileMemory } from '../tools/file-memory.ts';
import { seenFiles } from './seen-files.ts';

test('what another process saw later counts, and the newest are still the first', async () => {
  const transcript = createMemoryTranscript();
  await transcript.beginRun({
    ...{ id: 'run_1', sessionId: 'ses_1', userId: 'usr_1', trigger: 'api', agentSlug: 'coder' },
    ...{ model: 'a:b', permissionMode: 'ask', onUnanswered: 'deny', messages: [], owner: 'me' },
    ...{ queueLimit: 1, workspacePlace: null, provisionalTitle: null, events: [] },
  });
  const memories = [createFileMemory(), createFileMemory()] as const;
  const run = async (of: 0 | 1, seen: Readonly<Record<string, string>>) => {
    const files = seenFiles(memories[of]);
    await files.load(transcript, 'ses_1');
    const known = files.paths().map((path) => `${path} ${files.recall(path)?.sha256}`);
    for (const [path, sha256] of Object.entries(seen)) files.remember(path, { sha256, mtimeMs: 1 });
    await transcript.commitStep({
      ...{ runId: 'run_1', sessionId: 'ses_1', messages: [], usage: noUsage, steps: 0, events: [] },
      seenFiles: files.news(),
    });
    return known;
  };
  await run(0, { '/b': 'b1', '/a': 'a1' });
  expect(await run(0, {})).toEqual(['/a a1', '/b b1']);
  await run(1, { '/b': 'b2', '/c': 'c1' });
  expect(await run(0, {})).toEqual(['/c c1', '/b b2', '/a a1']);
});
