/** The extensions of a runtime, as one list. */
import { createContext } from './context/context.ts';
import type { Extension, ExtensionParts } from './extension.ts';
import { createLsp } from './lsp/lsp.ts';
import { createMcp } from './mcp/mcp.ts';
import { createSkills } from './skills/skills.ts';

/** Builds them all; none starts anything before it is needed. */
export function createExtensions(parts: ExtensionParts): readonly Extension[] {
  return [createContext(parts), createSkills(parts), createMcp(parts), createLsp(parts)];
}
