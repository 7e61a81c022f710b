"""A GGUF file that gives one parameter at a time, dequantised."""

import importlib
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from conwalk.errors import SourceError
from conwalk.models import gguf
from conwalk.models.quiet import quiet
from conwalk.models.shards.checkpoint import of_headers
from conwalk.models.tokenizer import one_line

_DENSE = {"F64", "F32", "F16", "BF16"}


class GGUFHeader:
    """What a GGUF file says of itself, parsed once.

    Args:
        file: an existing file.
        source: what errors call it.

    Raises:
        SourceError: no GGUF file, cut short, or of an architecture that transformers cannot read.
    """

    def __init__(self, file: Path, source: str) -> None:
        gguf.check_magic(file, source)
        self.file = file
        self.source = source
        self.reader = gguf.open_reader(file, source)
        loader: Any = importlib.import_module("transformers.modeling_gguf_pytorch_utils")
        try:
            with quiet(), gguf.prepared(self.reader):
                self._parsed = loader.load_gguf_checkpoint(str(file), return_tensors=False)
            self.config = self._configuration()
        except Exception as error:
            raise SourceError(
                f"{source}: transformers cannot read the architecture "
                f"{gguf.architecture(self.reader)!r} from a GGUF file ({one_line(error)}); use the "
                "model's safetensors"
            ) from error
        kind = loader.TENSOR_PROCESSORS.get(gguf.architecture(self.reader), loader.TensorProcessor)
        self.processor = kind(config=self._parsed["config"])

    @property
    def types(self) -> Counter[str]:
        """How many tensors there are of each type."""
        return Counter(tensor.tensor_type.name for tensor in self.reader.tensors)

    @property
    def quantized(self) -> bool:
        """Whether any tensor is stored in fewer than 16 bits a number."""
        return not set(self.types) <= _DENSE

    def _configuration(self) -> Any:
        import transformers

        values = dict(self._parsed["config"])
        return transformers.CONFIG_MAPPING[values["model_type"]].from_dict(values)


class GGUFCheckpoint:
    """The tensors of a GGUF file by the names the model has for them.

    Args:
        header: of the file.
        module: the model, on the meta device.
    """

    def __init__(self, header: GGUFHeader, module: nn.Module) -> None:
        loader: Any = importlib.import_module("transformers.modeling_gguf_pytorch_utils")
        self._header = header
        self._tensors = {tensor.name: tensor for tensor in header.reader.tensors}
        with gguf.prepared(header.reader):
            self._names: dict[str, str] = loader.get_gguf_hf_weights_map(module, header.processor)
        self._stored = {ours: theirs for theirs, ours in self._names.items()}
        self.fingerprint = of_headers([header.file])
        self.n_bytes = header.file.stat().st_size

    def __contains__(self, parameter: str) -> bool:
        """Whether the file has the parameter."""
        return self._stored.get(parameter, "") in self._tensors

    def shape(self, parameter: str) -> None:
        """Not known before the tensor is processed."""

    def read(self, parameter: str) -> Tensor:
        """One parameter, dequantised to float32."""
        from gguf import dequantize

        name = self._stored[parameter]
        tensor = self._tensors[name]
        # mapped anew, so that its pages do not stay in memory
        blocks = np.memmap(
            self._header.file,
            dtype=tensor.data.dtype,
            mode="r",
            offset=int(tensor.data_offset),
            shape=tensor.data.shape,
        )
        processed = self._header.processor.process(
            weights=dequantize(blocks, tensor.tensor_type),
            name=name,
            tensor_key_mapping=self._names,
            parsed_parameters={"tensors": {}},
        )
        return torch.from_numpy(np.array(processed.weights))
