/** How long servers may take to start where the settings say nothing: the defaults of the reference, as they are at work. */
import { expect, test } from 'vitest';
import { smallBench } from './lsp/test-lsp.ts';
import { hostile, testMcp, testWorkspace } from './mcp/test-mcp.ts';

test('an MCP server has 15 seconds and a language server has 30, and then the agent goes on without them', async () => {
  const mcpGivenUp = async () => {
    const workspacePath = testWorkspace();
    const mcp = testMcp({ slow: hostile('hangs') });
    const begun = performance.now();
    expect(await mcp.tools({ workspacePath })).toEqual([]);
    expect(performance.now() - begun).toBeGreaterThan(14_900);
    expect(mcp.states({ workspacePath })).toEqual([
      { name: 'slow', state: 'failed', detail: 'it did not connect within 15 s' },
    ]);
  };
  const lspGivenUp = async () => {
    const bench = smallBench('hang', { times: { startWaitMs: 100 } });
    const begun = performance.now();
    expect(await bench.note('a.x', 'wrong\n')).toContain('still starting');
    await expect.poll(() => bench.states()).toEqual(['small failed']);
    expect(performance.now() - begun).toBeGreaterThan(29_900);
    expect(await bench.note('a.x', 'wrong again\n')).toContain('did not answer initialize within 30 s');
  };
  await Promise.all([mcpGivenUp(), lspGivenUp()]);
});
