/** Language servers of many workspaces in one process: which of them end where there are more than may be. */
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { testExtensionParts } from '../test-extension.ts';
import { callTool, testWorkspace, toolNamed } from '../tools/test-workspace.ts';
import { createLsp } from './lsp.ts';
import { readNotes, shortTimes, smallServer, until } from './test-lsp.ts';

/** The extension with three places, for a server that starts for each folder with a `marker`. */
function threePlaces(mode: string) {
  const notes = join(testWorkspace().path, 'notes');
  const small = smallServer(mode, notes, { root_markers: ['marker'] });
  const first = { config: { lsp: { small } }, shared: false };
  const lsp = createLsp(testExtensionParts({ first }), { ...shortTimes, requestMs: 8000 }, 3);
  onTestFinished(() => lsp.close());
  return {
    /** A workspace in which a file of each of these projects is read, one after the other. */
    async workspace(...projects: readonly string[]) {
      const workspace = testWorkspace();
      const place = { workspacePath: workspace.path };
      const states = () => lsp.states(place).map(({ state }) => state);
      for (const project of projects) {
        workspace.file(`${project}/marker`, '');
        lsp.noticeRead?.(workspace.file(`${project}/a.x`, 'name\n'), place);
        await until(() => !states().includes('starting') && states().includes('ready'));
      }
      const ask = async () => {
        const tool = toolNamed(await lsp.tools(place), 'references');
        const input = { file_path: `${projects[0]}/a.x`, symbol: 'name' };
        return (await callTool(tool, input, workspace.context())).content;
      };
      return { states, ask };
    },
    asked: () => readNotes(notes).filter(({ method }) => method === 'textDocument/references').length,
  };
}

test('a workspace of many projects ends servers of its own, and not the one of another that was there before', async () => {
  const { workspace } = threePlaces('good');
  const small = await workspace('only');
  const large = await workspace('one', 'two', 'three', 'four');
  expect(small.states()).toEqual(['ready']);
  expect(large.states()).toEqual(['ready', 'ready']);
});

test('one that somebody waits for is not ended for another that nobody uses', async () => {
  const { workspace, asked } = threePlaces('deaf');
  const waiting = await workspace('one');
  const answer = waiting.ask();
  await until(() => asked() === 1);
  const unused = await workspace('two');
  for (const project of ['three', 'four']) await workspace(project);
  expect(await answer).toContain('did not answer textDocument/references within 8 s');
  expect([waiting.states(), unused.states()]).toEqual([['ready'], ['idle']]);
});
