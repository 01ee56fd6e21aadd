/** The tool that finds every use of a name. */
import { z } from 'zod';
import type { Tool } from '../../tools/tool.ts';
import { locationLines, locationsOf } from '../locations.ts';
import { counted } from '../shown.ts';
import { askAt, askingTool, type LspToolParts, placeInput } from './server-use.ts';

/** Builds the `references` tool. */
export function referencesTool(parts: LspToolParts): Tool {
  return askingTool(
    {
      name: 'references',
      description:
        'Finds every use of a function, type, variable or other name, as a language server understands the code: ' +
        'exact where a text search would also find what merely looks alike. Its definition is among them.',
      input: z.strictObject(placeInput),
    },
    async (input, place) => {
      const context = { includeDeclaration: true };
      const { answer, name } = await askAt(parts, 'textDocument/references', input, place, { context });
      const found = locationsOf(answer);
      if (found.length === 0) return `${name} knows of no use of it.`;
      return `${counted(found.length, 'reference')}:\n${locationLines(found, place.workspacePath)}`;
    },
  );
}
