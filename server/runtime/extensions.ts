/** The extensions of a runtime, as one list. */
import { createContext } from './context/context.ts';
import type { Extension, ExtensionParts } from './extension.ts';
import { createLsp } from './lsp/lsp.ts';
import { createMcp, type Mcp } from './mcp/mcp.ts';
import { createSkills } from './skills/skills.ts';

export interface Extensions {
  readonly all: readonly Extension[];
  /** The one among them that is asked for what its servers offer. */
  readonly mcp: Mcp;
}

/** Builds them all; none starts anything before it is needed. */
export function createExtensions(parts: ExtensionParts): Extensions {
  const mcp = createMcp(parts);
  return { all: [createContext(parts), createSkills(parts), mcp, createLsp(parts)], mcp };
}
