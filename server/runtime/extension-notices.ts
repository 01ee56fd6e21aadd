/** Tells in a run which servers of its extensions cannot be used, once each. */
import type { EventLog } from './events/event-log.ts';
import type { Extension } from './extension.ts';
import type { RunScope } from './runs/run-scope.ts';

const longestNotice = 5000;

/** The extensions whose parts are servers; of what is merely read, the listings tell. */
const titles: Readonly<Partial<Record<Extension['name'], string>>> = {
  mcp: 'MCP server',
  lsp: 'language server',
};

/** The agent goes on without them: what it lacks, the person should know. */
export async function tellFailures(
  { extensions, extensionPlace }: RunScope,
  log: EventLog,
  told: Set<string>,
): Promise<void> {
  for (const extension of extensions) {
    const title = titles[extension.name];
    if (title === undefined) continue;
    for (const { name, state, detail } of extension.states(extensionPlace())) {
      const key = `${extension.name} ${name}`;
      if (state !== 'failed' || told.has(key)) continue;
      told.add(key);
      const message = `The ${title} ${name} cannot be used: ${detail ?? 'nobody knows why'}.`;
      await log.push({
        name: 'runtime',
        data: { type: 'notice_given', message: message.slice(0, longestNotice).toWellFormed() },
      });
    }
  }
}
