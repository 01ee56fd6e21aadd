/** Extensions that fail at a file: a change that is made stays one. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { createLog } from '../../log.ts';
import type { Extension } from '../extension.ts';
import { callTool, testWorkspace } from '../tools/test-workspace.ts';
import { writeTool } from '../tools/write.ts';
import { noteAfterChange, noticeRead } from './file-notices.ts';

const silent: Extension = {
  name: 'lsp',
  apply: async () => undefined,
  tools: async () => [],
  states: () => [],
  close: async () => undefined,
};

test('a file that was written is told as written, with what other extensions say, whichever of them fails', async () => {
  const workspace = testWorkspace();
  const context = workspace.context();
  const scope = {
    extensions: [
      {
        ...silent,
        noteAfterChange: async () => Promise.reject(new Error('EACCES: permission denied, lstat')),
        noticeRead: () => {
          throw new Error('no such program');
        },
      },
      { ...silent, noteAfterChange: async () => 'a.ts has 1 error.' },
    ],
    extensionPlace: () => ({ workspacePath: workspace.path }),
    log: createLog('silent'),
    runId: 'run_1',
    signal: context.signal,
  };
  const output = await callTool(
    writeTool({ requireSandbox: false }),
    { file_path: 'a.ts', content: 'let it be\n' },
    { ...context, noteAfterChange: (path) => noteAfterChange(scope, path) },
  );
  expect(output).toMatchObject({ is_error: false, content: expect.stringContaining('a.ts has 1 error.') });
  expect(readFileSync(join(workspace.path, 'a.ts'), 'utf8')).toBe('let it be\n');
  expect(() => noticeRead(scope, 'a.ts')).not.toThrow();
});
