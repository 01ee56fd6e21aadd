// What a person saves while a tool is about to replace the file: it stays, whichever tool it is.
import { existsSync, readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { serveAnswers, testOutbound } from '../../outbound/test-server.ts';
import { downloadTool } from './download.ts';
import { editTool } from './edit.ts';
import { multieditTool } from './multiedit.ts';
import { callTool, testWorkspace } from './test-workspace.ts';
import { viewTool } from './view.ts';
import { writeTool } from './write.ts';

const rules = { requireSandbox: true };
const replacement = { old_string: 'one', new_string: 'ONE' };
const tools = {
  edit: () => [editTool(rules), { file_path: 'a', ...replacement }] as const,
  multiedit: () => [multieditTool(rules), { file_path: 'a', edits: [replacement] }] as const,
  write: () => [writeTool(rules), { file_path: 'a', content: 'ONE' }] as const,
  download: async () => {
    const server = await serveAnswers((_request, response) => void response.end('ONE'));
    const outbound = testOutbound({ shared: () => false });
    return [downloadTool(rules, outbound), { url: server.url, file_path: 'a' }] as const;
  },
};

const ways = {
  'is saved': (path: string) => writeFileSync(path, 'two'),
  'is replaced, as editors do': (path: string) => {
    writeFileSync(`${path}.new`, 'two');
    renameSync(`${path}.new`, path);
  },
};

describe.each(['edit', 'multiedit', 'write', 'download'] as const)('%s', (name) => {
  test.each(['is saved', 'is replaced, as editors do'] as const)(
    'replaces no file that %s in the last moment',
    async (way) => {
      const workspace = testWorkspace();
      const path = workspace.file('a', 'one');
      await callTool(viewTool(rules), { file_path: 'a' }, workspace.context());
      const [tool, input] = await tools[name]();
      const context = workspace.context({ recordChange: async () => ways[way](path) });
      const told = {
        is_error: true,
        content: 'a has changed since it was last viewed. View it again first.',
      };
      expect(await callTool(tool, input, context)).toMatchObject(told);
      expect(readFileSync(path, 'utf8')).toBe('two');
      expect(readdirSync(workspace.path)).toEqual(['a']);
      await expect(tool.prepare(input, workspace.context())).rejects.toThrow('has changed since');
    },
  );
});

test.each(['write', 'download'] as const)(
  '%s makes no file that somebody else makes meanwhile',
  async (name) => {
    const workspace = testWorkspace();
    const path = join(workspace.path, 'a');
    const [tool, input] = await tools[name]();
    const context = workspace.context({ recordChange: async () => writeFileSync(path, 'two') });
    expect(await callTool(tool, input, context)).toMatchObject({ is_error: true });
    expect(readFileSync(path, 'utf8')).toBe('two');
  },
);

test.each(['edit', 'write', 'download'] as const)(
  '%s brings back no file that is gone meanwhile',
  async (name) => {
    const workspace = testWorkspace();
    const path = workspace.file('a', 'one');
    await callTool(viewTool(rules), { file_path: 'a' }, workspace.context());
    const [tool, input] = await tools[name]();
    const context = workspace.context({ recordChange: async () => renameSync(path, `${path}.moved`) });
    expect(await callTool(tool, input, context)).toMatchObject({ is_error: true });
    expect(existsSync(path)).toBe(false);
  },
);
