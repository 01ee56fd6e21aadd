/** The tool that has a picture made, and saves it. */
import { dirname } from 'node:path';
import { z } from 'zod';
import { defineTool, success } from './define-tool.ts';
import { withNote } from './edit.ts';
import { askMedia, type MediaToolOptions, withWarnings } from './media-call.ts';
import { knownFile, saveFile } from './saved-file.ts';
import type { Tool } from './tool.ts';
import { assertWritable, resolveAgain, resolvePath } from './workspace-path.ts';

const input = z.strictObject({
  prompt: z.string().trim().min(1).max(32_000).describe('What the picture is to show, in words'),
  file_path: z.string().min(1).describe('Where to save it, relative to the workspace or absolute'),
  size: z
    .templateLiteral([z.int().min(16).max(8192), 'x', z.int().min(16).max(8192)])
    .optional()
    .describe('Width and height in pixels, as 1024x1024, for models that take them'),
  aspect_ratio: z
    .templateLiteral([z.int().min(1).max(99), ':', z.int().min(1).max(99)])
    .optional()
    .describe('Width to height, as 16:9, for models that take that instead'),
});

/** Builds the `generate_image` tool. */
export function generateImageTool({ media, config, rules }: MediaToolOptions): Tool {
  return defineTool({
    name: 'generate_image',
    description:
      'Has a model make a picture from words and saves it as a file, making missing folders. A file that is there ' +
      'already has to be viewed first. Each call costs money.',
    idempotent: false,
    needsPermission: true,
    input,
    async prepare(request, context) {
      const model = media.find('image', config, {});
      const path = await resolvePath(request.file_path, context.workspacePath);
      assertWritable(rules, path);
      await knownFile(path, context);
      return {
        permission: {
          action: 'execute',
          description: `Have ${model.name} make a picture, and save it as ${path.shown}`,
          path: dirname(path.real),
          file: path.real,
          params: { ...request },
        },
        async run() {
          const { prompt, size, aspect_ratio: aspectRatio } = request;
          const made = await askMedia(context, (call) => model.ask({ prompt, size, aspectRatio }, call));
          const [image] = made.images;
          if (!image) throw new Error('A picture was due');
          await resolveAgain(path);
          const { bytes, note } = await saveFile([image.bytes], path, context);
          const said = `Saved the picture as ${path.shown} (${image.mediaType}, ${bytes} bytes).`;
          return success(withNote(withWarnings(said, made.warnings), note), {
            ...{ path: path.shown, bytes, type: image.mediaType, model: model.name },
          });
        },
      };
    },
  });
}
