// What a process that was killed has left beside the files that it wrote.
import { readdirSync } from 'node:fs';
import { expect, test } from 'vitest';
import { serveAnswers, testOutbound } from '../../outbound/test-server.ts';
import { downloadTool } from './download.ts';
import { temporaryName } from './temporary-files.ts';
import { callTool, testWorkspace } from './test-workspace.ts';
import { writeTool } from './write.ts';

const rules = { requireSandbox: true };
const hour = 60 * 60;

test.each(['write', 'download'] as const)('goes with the next %s there once it is old', async (name) => {
  const workspace = testWorkspace();
  const server = await serveAnswers((_request, response) => void response.end('new'));
  const outbound = testOutbound({ shared: () => false });
  const call = {
    write: () => callTool(writeTool(rules), { file_path: 'in/a', content: 'new' }, workspace.context()),
    download: () =>
      callTool(downloadTool(rules, outbound), { url: server.url, file_path: 'in/a' }, workspace.context()),
  }[name];
  const young = temporaryName();
  workspace.file(`in/${temporaryName()}`, 'left', 2 * hour);
  workspace.file(`in/${young}`, 'at work', hour / 2);
  workspace.file('in/.service-notes.tmp', 'a person’s', 2 * hour);
  workspace.file(`${temporaryName()}`, 'elsewhere', 2 * hour);
  expect(await call()).toMatchObject({ is_error: false });
  expect(readdirSync(`${workspace.path}/in`).sort()).toEqual(['.service-notes.tmp', young, 'a'].sort());
  expect(readdirSync(workspace.path)).toHaveLength(2);
});
