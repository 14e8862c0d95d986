"""torch version"""
import torch

def forward(read, hidden, previous, gates, linear, state):
    H=previous.shape[1]
    rz=gates[:,:2*H]
    torch.add(read[:,:2*H],hidden[:,:2*H],out=rz); rz.sigmoid_()
    linear.copy_(hidden[:,2*H:])
    n=gates[:,2*H:]
    torch.addcmul(read[:,2*H:],gates[:,:H],linear,out=n); n.tanh_()
    torch.lerp(n,previous,gates[:,H:2*H],out=state)

def backward(flow, gates, linear, previous, hidden, new):
    H=previous.shape[1]
    r,z,n=gates[:,:H],gates[:,H:2*H],gates[:,2*H:]
    dn=torch.ops.aten.tanh_backward(flow*(1-z),n)
    new.copy_(dn)
    hidden[:,H:2*H]=torch.ops.aten.sigmoid_backward((previous-n).mul_(flow),z)
    hidden[:,:H]=torch.ops.aten.sigmoid_backward(dn*linear,r)
    hidden[:,2*H:]=dn.mul_(r)
    flow.mul_(z)
