"""Training programs of 200 steps, as their frameworks' users write them."""

WITHOUT_FUSED_ATTENTION = """
import torch
# Fused attention asks a library for its workspace, and the virtual GPU's stub knows none.
torch.backends.cuda.enable_flash_sdp(False)
torch.backends.cuda.enable_mem_efficient_sdp(False)
torch.backends.cuda.enable_cudnn_sdp(False)
"""

TRANSFORMERS = f"""{WITHOUT_FUSED_ATTENTION}
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 4096

    def __getitem__(self, index):
        tokens = torch.randint(0, 64, (16,))
        return {{"input_ids": tokens, "labels": tokens}}

config = GPT2Config(n_layer=2, n_embd=32, n_head=2, vocab_size=64, n_positions=32)
arguments = TrainingArguments(
    output_dir="trainer", max_steps=200, per_device_train_batch_size=4, report_to=[],
    logging_steps=50, save_strategy="no", dataloader_num_workers=1, disable_tqdm=True,
)
Trainer(model=GPT2LMHeadModel(config), args=arguments, train_dataset=Data()).train()
"""

LIGHTNING = """
import torch
import pytorch_lightning

class Module(pytorch_lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(
            torch.nn.Linear(32, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1)
        )

    def training_step(self, batch, index):
        loss = self.net(batch[0]).square().mean()
        self.log("loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)

data = torch.utils.data.TensorDataset(torch.randn(1600, 32))
loader = torch.utils.data.DataLoader(data, batch_size=8, pin_memory=True, num_workers=1)
pytorch_lightning.Trainer(
    max_steps=200, accelerator="gpu", devices=1, logger=False, enable_checkpointing=False,
    enable_progress_bar=False,
).fit(Module(), loader)
"""

PREFETCHER = """
import torch

class Prefetcher:
    def __init__(self, loader):
        self.loader, self.stream = loader, torch.cuda.Stream()

    def __iter__(self):
        batch = None
        for (following,) in self.loader:
            with torch.cuda.stream(self.stream):
                following = following.to("cuda", non_blocking=True).sub_(0.5).div_(2.0)
            if batch is not None:
                yield batch
            {wait}
            following.record_stream(torch.cuda.current_stream())
            batch = following
        yield batch

data = torch.utils.data.TensorDataset(torch.randn(1600, 32))
loader = torch.utils.data.DataLoader(data, batch_size=8, pin_memory=True)
model = torch.nn.Linear(32, 32).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for batch in Prefetcher(loader):
    model(batch).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
"""

PREFETCHER_RIGHT = PREFETCHER.format(wait="torch.cuda.current_stream().wait_stream(self.stream)")
PREFETCHER_WRONG = PREFETCHER.format(wait="pass")

RANKS = """
import os, torch
import torch.distributed
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
torch.distributed.init_process_group("nccl")
model = torch.nn.Sequential(*(torch.nn.Linear(32, 32) for _ in range(4))).cuda()
{wrap}
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(200):
    model(torch.randn(8, 32, device="cuda")).square().mean().backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
torch.distributed.destroy_process_group()
"""

DDP = RANKS.format(
    wrap="model = torch.nn.parallel.DistributedDataParallel(model, bucket_cap_mb=0.005)"
)

FSDP2 = RANKS.format(
    wrap="""from torch.distributed.fsdp import fully_shard
for layer in model:
    fully_shard(layer)
fully_shard(model)"""
)
