/** Language servers: what they find wrong with each changed file, and four tools that ask them about the code. */
import type { Extension, ExtensionParts, ExtensionSettings } from '../extension.ts';
import type { Tool } from '../tools/tool.ts';
import { noteOfChange } from './change-note.ts';
import { meet } from './judgement.ts';
import { type LspTimes, usualTimes } from './language-server.ts';
import { sampleFiles } from './sample-files.ts';
import { automaticServers, namedServers, type ServerDefinition, startsUnnamed } from './server-choice.ts';
import { createServerPool, mostServers } from './server-pool.ts';
import { definitionTool } from './tools/definition.ts';
import { diagnosticsTool } from './tools/diagnostics.ts';
import { referencesTool } from './tools/references.ts';
import type { LspToolParts } from './tools/server-use.ts';
import { symbolsTool } from './tools/symbols.ts';

/** Builds the extension; no server is started before a file is touched that it reads. */
export function createLsp(
  parts: ExtensionParts,
  times: LspTimes = usualTimes,
  most: number = mostServers,
): Extension {
  const { expand, log } = parts;
  let settings = parts.first;
  const started = {
    expand,
    sandbox: () => (settings.shared ? parts.sandbox : null),
    traced: () => settings.config.options?.debug_lsp ?? false,
    times,
    log,
  };
  const pool = createServerPool(() => settings, started, most);
  const toolParts: LspToolParts = {
    ...pool,
    describe: (workspacePath) => describe(settings, workspacePath),
    samples: (workspacePath) => sampleFiles(workspacePath, startable(settings, workspacePath)),
    times,
  };
  const tools = [diagnosticsTool, referencesTool, definitionTool, symbolsTool].map((tool) => tool(toolParts));
  return {
    name: 'lsp',
    async apply(next) {
      const shared = next.shared !== settings.shared;
      settings = next;
      // What was started for one person runs outside of the sandbox, and has to end when others come.
      await pool.apply(shared ? { config: { options: { auto_lsp: false } }, shared: next.shared } : next);
    },
    tools: async () => tools.filter((tool) => disabledBy(tool, settings, parts) === null),
    listing: () =>
      tools.map((tool) => ({
        name: tool.name,
        source: 'lsp',
        description: tool.description,
        input_schema: tool.inputSchema,
        needs_permission: tool.needsPermission,
        disabled_by: disabledBy(tool, settings, parts),
      })),
    async noteAfterChange(path, { workspacePath }, signal) {
      const servers = pool.serversFor(path, workspacePath);
      const notes = servers.map((server) => noteOfChange(server, path, times, signal));
      return (await Promise.all(notes)).filter(Boolean).join('\n\n');
    },
    noticeRead(path, { workspacePath }) {
      for (const server of pool.serversFor(path, workspacePath))
        server
          .use()
          // With a document open it reads the project that the document belongs to.
          .then((client) =>
            meet(client, path, { timeoutMs: times.judgeMs, signal: new AbortController().signal }),
          )
          .catch(() => undefined); // it is told when it is needed
    },
    states({ workspacePath }) {
      const used = pool.known(workspacePath).map((server) => server.state());
      const rest = Object.entries(settings.config.lsp ?? {}).filter(
        ([name]) => !used.some((state) => state.name === name),
      );
      return [
        ...used,
        ...rest.map(([name, { disabled }]) => ({
          name,
          state: disabled ? ('disabled' as const) : ('idle' as const),
          detail: unavailable(settings, parts),
        })),
      ];
    },
    close: () => pool.close(),
  };
}

/** Why there is no such tool; null where there is. */
function disabledBy(
  { name }: Tool,
  settings: ExtensionSettings,
  parts: Pick<ExtensionParts, 'sandbox'>,
): string | null {
  const { config } = settings;
  if (config.options?.disabled_tools?.includes(name)) return 'options.disabled_tools';
  if (unavailable(settings, parts) !== null) return 'no sandbox on this machine';
  const none = namedServers(config).length === 0 && automaticServers(config).length === 0;
  return none ? 'no language server is named, and options.auto_lsp is off' : null;
}

/** Why none can be started; null where they can. */
function unavailable(
  { shared }: ExtensionSettings,
  { sandbox }: Pick<ExtensionParts, 'sandbox'>,
): string | null {
  if (!shared || !('unavailable' in sandbox)) return null;
  return `language servers run here only in a sandbox, and ${sandbox.unavailable}`;
}

/** The servers that a file of the right type would start. */
function startable(
  { config, shared }: ExtensionSettings,
  workspacePath: string,
): readonly ServerDefinition[] {
  const automatic = automaticServers(config);
  return [
    ...namedServers(config),
    ...automatic.filter((definition) => startsUnnamed(definition, workspacePath, shared)),
  ];
}

function describe(settings: ExtensionSettings, workspacePath: string): string {
  const servers = startable(settings, workspacePath).map(
    ({ name, filetypes }) => `${name} (${filetypes.join(', ')})`,
  );
  return servers.length > 0
    ? `There are: ${servers.join('; ')}.`
    : 'None is named in the settings, and none was found.';
}
