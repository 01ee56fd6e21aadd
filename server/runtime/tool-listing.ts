/** What an agent can do in a workspace, as a list for people: what is off among it, and why. */
import type { Tool as ToolListing } from '../contract/api.ts';
import type { ClientConfig } from '../contract/config.ts';
import type { Extension, ExtensionPlace } from './extension.ts';
import type { Parts } from './live-parts.ts';
import { mediaTools } from './tools/media-tools.ts';

const sources: Readonly<Record<Extension['name'], ToolListing['source']>> = {
  mcp: 'mcp',
  lsp: 'lsp',
  skills: 'skill',
  context: 'builtin',
};

/** The built-in tools, and those that extensions bring: their servers are started where they are not. */
export async function listTools(
  parts: Parts,
  place: ExtensionPlace,
  /** The settings that count in the workspace. */
  config: ClientConfig,
): Promise<readonly ToolListing[]> {
  const { extensions } = parts;
  const disabled = config.options?.disabled_tools ?? [];
  await parts.toolset.present();
  const builtIn = listBuiltIn(parts, config);
  const added = await Promise.all(
    extensions.map((extension) => extension.listing?.() ?? broughtBy(extension, place, disabled)),
  );
  const taken = new Set(builtIn.map(({ name }) => name));
  return [...builtIn, ...added.flat().filter(({ name }) => !taken.has(name))];
}

/** Those that belong to no extension. */
function listBuiltIn({ toolset, media }: Parts, config: ClientConfig): readonly ToolListing[] {
  const disabled = config.options?.disabled_tools ?? [];
  const making = mediaTools({ media, config, rules: toolset.pathRules }).map(({ tool, absence }) => ({
    name: tool.name,
    source: 'builtin' as const,
    description: tool.description,
    input_schema: tool.inputSchema,
    needs_permission: tool.needsPermission,
    disabled_by: disabled.includes(tool.name) ? 'options.disabled_tools' : absence,
  }));
  return [...toolset.list(), ...making];
}

async function broughtBy(
  extension: Extension,
  place: ExtensionPlace,
  disabled: readonly string[],
): Promise<readonly ToolListing[]> {
  const tools = await extension.tools(place);
  return tools.map(({ name, description, inputSchema, needsPermission }) => ({
    name,
    source: sources[extension.name],
    description,
    input_schema: inputSchema,
    needs_permission: needsPermission,
    disabled_by: disabled.includes(name) ? 'options.disabled_tools' : null,
  }));
}
